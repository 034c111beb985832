package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
)

// waitForLock returns when a statement in the database waits for a lock.
func waitForLock(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	require.Eventually(t, func() bool {
		return len(texts(t, pool, `SELECT query FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`)) > 0
	}, 30*time.Second, time.Millisecond)
}

// A statement that the server rolls back is repeated.
func TestSerializationFailure(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	s := openAt(t, dsn+"&default_transaction_isolation=serializable", postgres.Config{})
	pool := hostPool(t, dsn)
	attach(t, s, "run-1")
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	_, err = tx.Exec(t.Context(), "UPDATE watchdog_sessions SET last_event_at = now() + interval '1 second'")
	require.NoError(t, err)
	result := make(chan error, 1)
	go func() {
		before, after, err := s.Attach(t.Context(), session.Session{RunID: "run-1"})
		assert.Equal(t, before.Attempt+1, after.Attempt)
		result <- err
	}()
	waitForLock(t, pool)
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-result, "the caller must not see the serialization failure")
}

// A transaction that the server rolls back because of a deadlock is repeated.
func TestDeadlockRepeated(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	s, pool := openAt(t, dsn+"&deadlock_timeout=100ms", postgres.Config{}), hostPool(t, dsn)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	_, err = tx.Exec(t.Context(), "SET LOCAL deadlock_timeout = '1h'") // the server ends the other one
	require.NoError(t, err)
	const insert = `INSERT INTO events SELECT $1, 'runtime_control', 'run-2', 'theirs', '{}', now()`
	_, err = tx.Exec(t.Context(), insert, "event-2")
	require.NoError(t, err)
	theirs := make(chan error, 1)
	second, tries := appending("run-1", numbered(2)), 0
	second.Decide = func([]watchdog.Event) []watchdog.Event {
		if tries++; tries == 1 {
			go func() { // it waits for us, and then we wait for it
				_, err := tx.Exec(t.Context(), insert, "event-1")
				theirs <- errors.Join(err, tx.Commit(t.Context()))
			}()
			waitForLock(t, pool)
		}
		return []watchdog.Event{numbered(2)}
	}
	require.NoError(t, s.Transact(t.Context(), appending("run-1", numbered(1)), second))
	require.NoError(t, <-theirs)
	assert.Greater(t, tries, 1)
	assert.Equal(t, "theirs", second.Kept[0].Type)
}

// A batch that waits for the lock of an event holds no lock of a later ID.
func TestInsertOrder(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	s, pool := openAt(t, dsn, postgres.Config{}), hostPool(t, dsn)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	const insert = `INSERT INTO events SELECT $1, 'runtime_control', 'run-1', 'x', '{}', now()`
	_, err = tx.Exec(t.Context(), insert, "event-1")
	require.NoError(t, err)
	result := make(chan error, 1)
	go func() { result <- s.Append(t.Context(), numbered(2), numbered(1)) }()
	waitForLock(t, pool)
	_, err = tx.Exec(t.Context(), "SET LOCAL lock_timeout = '100ms'")
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), insert, "event-2")
	require.NoError(t, err, "the waiting batch must not hold the lock of event-2")
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-result)
	assert.Len(t, read(t, s), 2)
}
