package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// TestLockedTable checks that no call waits for a table that a stranger has locked, whether its statement is new to the
// connection or not, and that the connection of the host keeps its own limit.
func TestLockedTable(t *testing.T) {
	t.Parallel()
	const parts = 4 // at once: each call waits for a while
	for mode, name := range map[pgx.QueryExecMode]string{
		pgx.QueryExecModeCacheStatement: "in one round trip", pgx.QueryExecModeSimpleProtocol: "in several",
	} {
		for part := range parts {
			t.Run(fmt.Sprintf("%s, part %d", name, part), func(t *testing.T) {
				t.Parallel()
				refusesLocked(t, mode, func(i int) bool { return i%parts == part })
			})
		}
	}
}

// refusesLocked makes some of the calls while the tables are locked, when they are not, and while they are again.
func refusesLocked(t *testing.T, mode pgx.QueryExecMode, chosen func(i int) bool) {
	t.Helper()
	dsn := newDSN(t)
	stranger := hostPool(t, dsn)
	host := hostPool(t, dsn, func(c *pgxpool.Config) {
		c.MaxConns, c.ConnConfig.DefaultQueryExecMode = 1, mode
		c.ConnConfig.RuntimeParams["lock_timeout"] = "1h"
	})
	calls := tableCalls(newStoreWith(t, host, withOutbox))
	for i, name := range slices.Sorted(maps.Keys(calls)) {
		if !chosen(i) {
			delete(calls, name)
		}
	}
	refusesAll := func(when string) {
		tx, err := stranger.Begin(t.Context())
		require.NoError(t, err)
		defer tx.Rollback(context.WithoutCancel(t.Context()))
		_, err = tx.Exec(t.Context(), `LOCK TABLE watchdog_sessions, watchdog_leases, events,
			watchdog_spend, watchdog_slices, watchdog_outbox, watchdog_lease_ends`)
		require.NoError(t, err)
		for name, call := range calls {
			began := time.Now()
			err := call(t.Context())
			require.ErrorContains(t, err, "lock_timeout allows", "%s, %s", name, when)
			assert.Less(t, time.Since(began), seconds, "%s, %s", name, when)
			assert.Equal(t, []string{"1h"}, texts(t, host, "SHOW lock_timeout"), "%s, %s", name, when)
		}
	}
	refusesAll("new to the connection")
	for name, call := range calls {
		if name == "Follow" {
			continue
		}
		err := call(t.Context())
		unknown := errors.Is(err, watchdog.ErrInvalid) && name == "Return"
		if !unknown && !errors.Is(err, session.ErrLeaseExpired) && !errors.Is(err, session.ErrNotFound) {
			require.NoError(t, err, name)
		}
		assert.Equal(t, []string{"1h"}, texts(t, host, "SHOW lock_timeout"), name)
	}
	refusesAll("known to the connection")
}

// TestLockedLease checks that what needs a lease does not wait for long for a transaction that has locked its row.
func TestLockedLease(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	host := hostPool(t, dsn, func(c *pgxpool.Config) { c.MaxConns = 1 })
	s, stranger := newStore(t, host), hostPool(t, dsn)
	l := begin(t, s, lease1)
	attachLeased(t, s, lease1, "run-1")
	tx, err := stranger.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	_, err = tx.Exec(t.Context(), "SELECT FROM watchdog_leases FOR UPDATE")
	require.NoError(t, err)
	for name, call := range map[string]func() error{
		"RenewLease": func() error { return s.RenewLease(t.Context(), l) },
		"Attach": func() error {
			_, _, err := s.Attach(t.Context(), session.Session{RunID: "run-2", StartedAt: noon, Lease: lease1})
			return err
		},
		"Freshen": func() error {
			return second(s.Freshen(t.Context(), lease1, []session.Freshness{{RunID: "run-1", Attempt: 1}, {RunID: "run-9"}}))
		},
	} {
		began := time.Now()
		require.ErrorContains(t, call(), "lock_timeout allows", name)
		assert.Less(t, time.Since(began), seconds, name)
	}
	_, _, err = s.ExpireLease(t.Context(), l)
	require.ErrorIs(t, err, session.ErrLocked)
}
