package postgres_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/notify"
	"github.com/seed62658d38/watchdog/store/postgres"
)

// A refusal is the transport to a receiver that takes nothing.
type refusal struct{}

func (refusal) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusInternalServerError, Body: http.NoBody}, nil
}

// A boxClock is the clock by which the times in an outbox are read: when it goes on, or is set, all of them are further
// in the past.
type boxClock struct {
	testing.TB
	pool *pgxpool.Pool
	gone time.Duration // really, in all
}

func (c *boxClock) set(by time.Duration, columns ...string) {
	c.Helper()
	for i, column := range columns {
		columns[i] = fmt.Sprintf("%[1]s = %[1]s - interval '%[2]d microseconds'", column, by.Microseconds())
	}
	mustExec(c, c.pool, "UPDATE watchdog_outbox SET "+strings.Join(columns, ", "))
}

func (c *boxClock) setAll(by time.Duration) { c.set(by, "created_at", "due_at", "paused_at") }

// pass has the pause of the only notice pass.
func (c *boxClock) pass() {
	c.Helper()
	text := texts(c, c.pool, "SELECT (extract(epoch FROM due_at - paused_at) * 1000000)::bigint::text FROM watchdog_outbox")
	pause, err := strconv.ParseInt(text[0], 10, 64)
	require.NoError(c, err)
	c.gone += time.Duration(pause) * time.Microsecond
	c.setAll(time.Duration(pause) * time.Microsecond)
}

// A notice that was put by a clock that is wrong by a year is tried for as long as KeepFor says, and then dropped once.
func TestNoticeOfWrongClock(t *testing.T) {
	t.Parallel()
	const year, keepFor = 365 * 24 * time.Hour, 2 * notify.LeastKeepFor
	for name, test := range map[string]struct {
		wrong     time.Duration
		corrected int // after so many tries, 15 in a pause of an hour
	}{
		"right":                               {0, 0},
		"a year ahead when it was put":        {year, 0},
		"a year behind when it was put":       {-year, 0},
		"a year ahead for three tries":        {year, 3},
		"a year behind for three tries":       {-year, 3},
		"a year ahead until a pause is long":  {year, 15},
		"a year behind until a pause is long": {-year, 15},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := newDSN(t)
			s := openAt(t, dsn, postgres.Config{Outbox: true})
			clock := &boxClock{TB: t, pool: hostPool(t, dsn)}
			require.NoError(t, s.PutNotices(t.Context(), alertOf("alert-1")))
			if test.corrected == 0 {
				clock.set(-test.wrong, "created_at")
			}
			var log bytes.Buffer
			sender, err := notify.New(s, s, notify.Config{
				URL: "https://hooks.example.com/x", Secrets: []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
				Transport: refusal{}, Logger: slog.New(slog.NewTextHandler(&log, nil)), KeepFor: keepFor,
			})
			require.NoError(t, err)
			for try := 1; ; try++ {
				d, _ := sender.Deliver(t.Context())
				if d.Dropped > 0 {
					break
				}
				require.Equal(t, notify.Delivery{Delayed: 1}, d, "try %d", try)
				if try == test.corrected {
					clock.setAll(-test.wrong)
				}
				if try != test.corrected || test.wrong == 0 {
					clock.pass()
				}
			}
			assert.GreaterOrEqual(t, clock.gone, keepFor)
			assert.LessOrEqual(t, clock.gone, keepFor+time.Hour+time.Second)
			assert.Equal(t, 1, strings.Count(log.String(), "a notice is given up, and nobody is told of it"))
			assert.Empty(t, texts(t, clock.pool, "SELECT event_id FROM watchdog_outbox"))
		})
	}
}
