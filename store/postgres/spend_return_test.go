package postgres_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/store/postgres"
)

// beforeStatements calls funcs once, each before the first statement that has a text.
type beforeStatements map[string]func()

func (b beforeStatements) TraceQueryStart(
	ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData,
) context.Context {
	for text, do := range b {
		if strings.Contains(q.SQL, text) {
			delete(b, text)
			do()
		}
	}
	return ctx
}

func (beforeStatements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// A slice is returned by who had no answer to the take, while that is still under way: between the statement that locks
// and the one that reads. What others take meanwhile stays charged.
func TestReturnMeetsTake(t *testing.T) {
	dsn := newDSN(t)
	other := openAt(t, dsn, postgres.Config{})
	take := func(id string, requests int64, patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := other.Take(ctx, sliceOf(id, requests, 100))
		return err
	}
	require.NoError(t, take("slice-1", 1, time.Minute), "the window is there")
	var late error
	s := newStore(t, hostPool(t, dsn, func(c *pgxpool.Config) {
		// So each statement is sent by itself.
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
		c.ConnConfig.Tracer = beforeStatements{
			"s.returned_at IS NOT NULL": func() { require.NoError(t, take("slice-2", 10, time.Minute)) },
			"returned_at = ":            func() { late = take("slice-3", 20, time.Second/5) },
		}
	}))
	require.NoError(t, s.Return(t.Context(), "slice-2", watchdog.Totals{Requests: 4}))
	require.Error(t, late, "the scope is not locked while it is changed")
	g, err := other.Take(t.Context(), sliceOf("slice-4", 1, 100))
	require.NoError(t, err)
	assert.Equal(t, int64(1+10-4+1), g.Charged.Requests)
}
