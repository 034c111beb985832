package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
)

var withOutbox = postgres.Config{Outbox: true}

func alertOf(id string) session.Notice {
	return session.Notice{ID: id, AggregateType: "sweeper", AggregateID: "host-1", Type: "lease.lost"}
}

// onOutbox are the calls of an outbox.
var onOutbox = map[string]func(ctx context.Context, s *postgres.Store) error{
	"PutNotices": func(ctx context.Context, s *postgres.Store) error { return s.PutNotices(ctx, alertOf("1")) },
	"ClaimNotices": func(ctx context.Context, s *postgres.Store) error {
		return second(s.ClaimNotices(ctx, 1, time.Hour))
	},
	"FinishNotices": func(ctx context.Context, s *postgres.Store) error { return s.FinishNotices(ctx, alertOf("1")) },
	"DelayNotice": func(ctx context.Context, s *postgres.Store) error {
		return s.DelayNotice(ctx, alertOf("1"), time.Hour)
	},
}

// claimAll claims all that is due, and returns the IDs with the numbers of the tries.
func claimAll(tb testing.TB, s *postgres.Store, lasts time.Duration) (claimed []string) {
	tb.Helper()
	all, err := s.ClaimNotices(tb.Context(), 1000, lasts)
	require.NoError(tb, err)
	for _, n := range all {
		claimed = append(claimed, fmt.Sprint(n.ID, " ", n.Tries))
	}
	return claimed
}

// putBefore is how another program can put an end.
func putBefore(id string) string {
	return fmt.Sprintf(`INSERT INTO watchdog_outbox (event_id, aggregate_type, aggregate_id, event_type, created_at)
		VALUES ('%s', '%s', 'run-1', '%s', now())`, id, watchdog.AggregateType, watchdog.EventCancel)
}

func inTable(tb testing.TB, pool *pgxpool.Pool) []string {
	tb.Helper()
	return texts(tb, pool, "SELECT event_id FROM watchdog_outbox ORDER BY id")
}

// endOf stores the end of a run.
func endOf(tb testing.TB, s *postgres.Store, id string) {
	tb.Helper()
	e := numbered(1)
	e.ID, e.Type = id, watchdog.EventCancel
	require.NoError(tb, s.Append(tb.Context(), e))
}

func TestNotices(t *testing.T) {
	t.Parallel()
	t.Run("of a store whose outbox is off are an error that says what to set", func(t *testing.T) {
		s := openAt(t, newDSN(t), postgres.Config{})
		for name, call := range onOutbox {
			err := call(t.Context(), s)
			require.ErrorIs(t, err, session.ErrNoOutbox, name)
			require.ErrorContains(t, err, "set Outbox in its configuration", name)
		}
	})
	t.Run("are delivered by another store than the one that stores the ends", func(t *testing.T) {
		dsn := newDSN(t)
		writer, sender := openAt(t, dsn, withOutbox), openAt(t, dsn, withOutbox)
		endOf(t, writer, "end-1")
		cancelOne(t, writer, "run-2")
		require.Equal(t, []string{"end-1 1", "cancel of run-2 1"}, claimAll(t, sender, time.Hour))
		require.NoError(t, sender.FinishNotices(t.Context(), session.Notice{ID: "end-1"}))
		assert.Equal(t, []string{"cancel of run-2"}, inTable(t, hostPool(t, dsn)))
	})
	t.Run("that nobody finishes are due again when the claim is over, and not before", func(t *testing.T) {
		s := openAt(t, newDSN(t), withOutbox)
		endOf(t, s, "end-1")
		const lasts = 300 * time.Millisecond
		for try := 1; try < 6; try += 2 {
			began := time.Now()
			require.Equal(t, []string{fmt.Sprint("end-1 ", try)}, claimAll(t, s, lasts))
			require.Eventually(t, func() bool {
				return len(claimAll(t, s, 0)) > 0
			}, time.Minute, 10*time.Millisecond)
			assert.GreaterOrEqual(t, time.Since(began), lasts)
		}
	})
	t.Run("can be claimed for ever", func(t *testing.T) {
		s := openAt(t, newDSN(t), withOutbox)
		endOf(t, s, "end-1")
		require.Len(t, claimAll(t, s, watchdog.NoLimit), 1)
		assert.Empty(t, claimAll(t, s, watchdog.NoLimit))
	})
	t.Run("that are there twice are finished together", func(t *testing.T) {
		dsn := newDSN(t)
		s, pool := openAt(t, dsn, withOutbox), hostPool(t, dsn)
		mustExec(t, pool, putBefore("twice"), putBefore("twice"), putBefore("once"))
		assert.Equal(t, []string{"twice 1", "twice 1", "once 1"}, claimAll(t, s, time.Hour))
		require.NoError(t, s.FinishNotices(t.Context(), session.Notice{ID: "twice"}))
		assert.Equal(t, []string{"once"}, inTable(t, pool))
	})
	t.Run("with a row of another program that cannot be understood are claimed all the same", func(t *testing.T) {
		dsn := newDSN(t)
		s := openAt(t, dsn, withOutbox)
		mustExec(t, hostPool(t, dsn), putBefore("poisoned"), "UPDATE watchdog_outbox SET created_at = 'infinity'")
		endOf(t, s, "end-1")
		assert.Equal(t, []string{"poisoned 1", "end-1 1"}, claimAll(t, s, time.Hour))
	})
	t.Run("of which none is due cost no write", func(t *testing.T) {
		dsn := newDSN(t)
		s, pool := openAt(t, dsn, withOutbox), hostPool(t, dsn)
		endOf(t, s, "end-1")
		require.Len(t, claimAll(t, s, time.Hour), 1)
		const written = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text"
		// The server counts the writes of all its databases, such as those of its own upkeep.
		require.Eventually(t, func() bool {
			before := texts(t, pool, written)
			assert.Empty(t, claimAll(t, s, time.Hour))
			return slices.Equal(before, texts(t, pool, written))
		}, time.Minute, time.Millisecond)
	})
}

// lockNotice locks the row of a notice, as another program could.
func lockNotice(t *testing.T, pool *pgxpool.Pool, id string) pgx.Tx {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	_, err = tx.Exec(t.Context(), "SELECT FROM watchdog_outbox WHERE event_id = $1 FOR UPDATE", id)
	require.NoError(t, err)
	return tx
}

func TestLockedNotice(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]string{
		"": "", ", in a mode of its own": "&default_query_exec_mode=simple_protocol",
	} {
		t.Run("holds up no other"+name, func(t *testing.T) {
			dsn := newDSN(t)
			s, pool := openAt(t, dsn+options, withOutbox), hostPool(t, dsn)
			for _, id := range []string{"end-1", "end-2", "end-3"} {
				endOf(t, s, id)
			}
			tx := lockNotice(t, pool, "end-2")
			began := time.Now()
			assert.Equal(t, []string{"end-1 1", "end-3 1"}, claimAll(t, s, time.Hour))
			assert.Less(t, time.Since(began), 8*promptly, "nothing waited")

			all := []session.Notice{{ID: "end-1"}, {ID: "end-2"}, {ID: "end-3"}}
			began = time.Now()
			require.ErrorContains(t, s.FinishNotices(t.Context(), all...), "lock_timeout allows")
			assert.Less(t, time.Since(began), seconds)
			assert.Equal(t, []string{"end-2"}, inTable(t, pool), "the others are finished")
			err := s.DelayNotice(t.Context(), session.Notice{ID: "end-2"}, time.Hour)
			require.ErrorContains(t, err, "lock_timeout allows")

			finished := make(chan error, 1)
			go func() { finished <- s.FinishNotices(t.Context(), all...) }()
			waitForLock(t, pool)
			require.NoError(t, tx.Rollback(t.Context()))
			require.NoError(t, <-finished)
			assert.Empty(t, inTable(t, pool))
		})
	}
	t.Run("that another claims meanwhile is not delayed", func(t *testing.T) {
		dsn := newDSN(t)
		s, pool := openAt(t, dsn, withOutbox), hostPool(t, dsn)
		endOf(t, s, "end-1")
		claimed, err := s.ClaimNotices(t.Context(), 1, 0)
		require.NoError(t, err)
		tx := lockNotice(t, pool, "end-1")
		_, err = tx.Exec(t.Context(), "UPDATE watchdog_outbox SET tries = tries + 1, due_at = now() + interval '1 hour'")
		require.NoError(t, err)
		delayed := make(chan error, 1)
		go func() { delayed <- s.DelayNotice(t.Context(), claimed[0], 0) }()
		waitForLock(t, pool)
		require.NoError(t, tx.Commit(t.Context()))
		require.NoError(t, <-delayed)
		assert.Empty(t, claimAll(t, s, 0))
	})
	t.Run("that another puts meanwhile is put once", func(t *testing.T) {
		dsn := newDSN(t)
		s, pool := openAt(t, dsn, withOutbox), hostPool(t, dsn)
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		defer tx.Rollback(context.WithoutCancel(t.Context()))
		_, err = tx.Exec(t.Context(), `INSERT INTO watchdog_outbox
			(event_id, aggregate_type, aggregate_id, event_type, created_at, alert) VALUES ('alert-1', 'a', 'b', 'c', now(), true)`)
		require.NoError(t, err)
		put := make(chan error, 1)
		go func() { put <- s.PutNotices(t.Context(), alertOf("alert-1"), alertOf("alert-2")) }()
		waitForLock(t, pool)
		require.NoError(t, tx.Commit(t.Context()))
		require.NoError(t, <-put)
		assert.Equal(t, []string{"alert-1", "alert-2"}, inTable(t, pool))
	})
}

// What the page for operators says of the role that delivers is enough, and each right is needed.
func TestDeliveryRights(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	pool := hostPool(t, dsn)
	cfg := postgres.Config{Schema: "watchdog", Outbox: true}
	openAt(t, dsn, cfg)
	mustExec(t, pool, "DROP ROLE IF EXISTS sender", "CREATE ROLE sender LOGIN")
	t.Cleanup(func() { mustExec(t, pool, "DROP OWNED BY sender", "DROP ROLE sender") })
	for _, grant := range documented(t, "operations.md", "Rights") {
		if !strings.Contains(grant, "DATABASE") {
			mustExec(t, pool, strings.Replace(grant, "TO app", "TO sender", 1))
		}
	}
	s := openAt(t, strings.Replace(dsn, "user=postgres", "user=sender", 1), cfg)
	deliver := func() error {
		err := s.PutNotices(t.Context(), alertOf("alert-1"))
		all, claimErr := s.ClaimNotices(t.Context(), 1, time.Hour)
		if len(all) == 0 {
			return errors.Join(err, claimErr, errors.New("nothing was claimed"))
		}
		return errors.Join(err, claimErr, s.DelayNotice(t.Context(), all[0], 0), s.FinishNotices(t.Context(), all...))
	}
	grants := documented(t, "operations.md", "Delivering notices")
	require.NotEmpty(t, grants)
	for _, grant := range grants {
		rights, rest, _ := strings.Cut(strings.TrimPrefix(grant, "GRANT "), " ON ")
		for right := range strings.SplitSeq(rights, ", ") {
			endOf(t, s, "end before "+right)
			require.ErrorContains(t, deliver(), "grant the role what it lacks", "before "+right)
			mustExec(t, pool, strings.Replace("GRANT "+right+" ON "+rest, "TO app", "TO sender", 1))
		}
	}
	require.NoError(t, deliver())
}
