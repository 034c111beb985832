package sqlite_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

var withOutbox = sqlite.Config{Outbox: true}

// onOutbox are the calls of an outbox.
var onOutbox = map[string]func(ctx context.Context, s *sqlite.Store) error{
	"PutNotices": func(ctx context.Context, s *sqlite.Store) error {
		return s.PutNotices(ctx, session.Notice{ID: "1", AggregateType: "a", AggregateID: "b", Type: "c"})
	},
	"ClaimNotices": func(ctx context.Context, s *sqlite.Store) error {
		_, err := s.ClaimNotices(ctx, 1, time.Hour)
		return err
	},
	"FinishNotices": func(ctx context.Context, s *sqlite.Store) error {
		return s.FinishNotices(ctx, session.Notice{ID: "1"})
	},
	"DelayNotice": func(ctx context.Context, s *sqlite.Store) error {
		return s.DelayNotice(ctx, session.Notice{ID: "1"}, time.Hour)
	},
}

// claimAll claims all that is due, and returns the IDs with the numbers of the tries.
func claimAll(tb testing.TB, s *sqlite.Store, lasts time.Duration) (claimed []string) {
	tb.Helper()
	all, err := s.ClaimNotices(tb.Context(), 1000, lasts)
	require.NoError(tb, err)
	for _, n := range all {
		claimed = append(claimed, fmt.Sprint(n.ID, " ", n.Tries))
	}
	return claimed
}

func TestNotices(t *testing.T) {
	t.Parallel()
	t.Run("of a store whose outbox is off are an error that says what to set", func(t *testing.T) {
		s := openNew(t)
		for name, call := range onOutbox {
			err := call(t.Context(), s)
			require.ErrorIs(t, err, session.ErrNoOutbox, name)
			assert.True(t, errorHas(err, "set Outbox in its configuration", "events.db"), err)
		}
		require.NoError(t, s.Close())
		for name, call := range onOutbox {
			require.ErrorIs(t, call(t.Context(), s), sqlite.ErrClosed, name)
		}
	})
	t.Run("are delivered by another store than the one that stores the ends", func(t *testing.T) {
		file := newFile(t)
		writer, sender := openWith(t, file, withOutbox), openWith(t, file, withOutbox)
		require.NoError(t, writer.Append(t.Context(), numbered(1)))
		require.Equal(t, []string{"event-1 1"}, claimAll(t, sender, time.Hour))
		require.NoError(t, sender.FinishNotices(t.Context(), session.Notice{ID: "event-1"}))
		assert.Empty(t, queryAll(t, openPlain(t, file), allInOutbox))
	})
	t.Run("that nobody finishes are due again when the claim is over, and not before", func(t *testing.T) {
		s := openWith(t, newFile(t), withOutbox)
		require.NoError(t, s.Append(t.Context(), numbered(1)))
		const lasts = 300 * time.Millisecond
		for try := 1; try < 4; try++ {
			began := time.Now()
			require.Equal(t, []string{fmt.Sprint("event-1 ", try)}, claimAll(t, s, lasts))
			require.Eventually(t, func() bool {
				return len(claimAll(t, s, 0)) > 0
			}, time.Minute, 10*time.Millisecond)
			assert.GreaterOrEqual(t, time.Since(began), lasts-time.Millisecond, "the clock is read in milliseconds")
			try++
		}
	})
	t.Run("that are there twice are finished together", func(t *testing.T) {
		file := newFile(t)
		s := openWith(t, file, withOutbox)
		mustExec(t, openPlain(t, file, "busy_timeout(10000)"), putBefore("twice"), putBefore("twice"), putBefore("once"))
		assert.Equal(t, []string{"twice 1", "twice 1", "once 1"}, claimAll(t, s, time.Hour))
		require.NoError(t, s.FinishNotices(t.Context(), session.Notice{ID: "twice"}))
		assert.Equal(t, []string{"once"}, queryAll(t, openPlain(t, file), "SELECT event_id FROM watchdog_outbox"))
	})
	t.Run("with a row of another program that cannot be understood are claimed all the same", func(t *testing.T) {
		file := newFile(t)
		s := openWith(t, file, withOutbox)
		mustExec(t, openPlain(t, file, "busy_timeout(10000)"), putBefore("poisoned"),
			"UPDATE watchdog_outbox SET created_at = 'yesterday', tries = 'many'")
		require.NoError(t, s.Append(t.Context(), numbered(1)))
		assert.Equal(t, []string{"poisoned 1", "event-1 1"}, claimAll(t, s, time.Hour))
	})
	t.Run("of which none is due cost no write", func(t *testing.T) {
		file := newFile(t)
		s, db := openWith(t, file, withOutbox), openPlain(t, file)
		db.SetMaxOpenConns(1)
		require.NoError(t, s.Append(t.Context(), numbered(1)))
		require.Len(t, claimAll(t, s, time.Hour), 1)
		before := queryAll(t, db, "PRAGMA data_version")
		assert.Empty(t, claimAll(t, s, time.Hour))
		assert.Equal(t, before, queryAll(t, db, "PRAGMA data_version"))
		require.NoError(t, s.FinishNotices(t.Context(), session.Notice{ID: "event-1"}))
		assert.NotEqual(t, before, queryAll(t, db, "PRAGMA data_version"), "what is written shows")
	})
}

// putBefore is how another program can put an end.
func putBefore(id string) string {
	return fmt.Sprintf(`INSERT INTO watchdog_outbox (event_id, aggregate_type, aggregate_id, event_type, created_at)
		VALUES ('%s', '%s', 'run-1', '%s', '2026-01-02 03:04:05.000006')`, id, watchdog.AggregateType, watchdog.EventCancel)
}

func TestLockedNotices(t *testing.T) {
	t.Parallel()
	for name, call := range onOutbox {
		t.Run(name+" waits for the lock as other writes do, and says so", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				file := newFile(t)
				s, holder := openWith(t, file, withOutbox), openPlain(t, file)
				holder.SetMaxOpenConns(1)
				mustExec(t, holder, "BEGIN IMMEDIATE")
				began := time.Now()
				err := call(t.Context(), s)
				assert.True(t, errorHas(err, "locked by another writer", "another program is writing to it"), err)
				assert.Less(t, time.Since(began), 2*sqlite.LockWait)
				mustExec(t, holder, "ROLLBACK")
				require.NoError(t, call(t.Context(), s))
			})
		})
	}
}
