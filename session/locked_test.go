package session_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// lockedFor has each attach wait for a lock in vain, as a store does, until a time has gone by.
func (f *fixture) lockedFor(d time.Duration) {
	until := time.Now().Add(d)
	f.db.onCall(func(ctx context.Context, call string) error {
		if call != "Attach" || !time.Now().Before(until) {
			return nil
		}
		select {
		case <-time.After(session.LockWait):
			return session.ErrLocked
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// TestAttachLocked: a run begins though another transaction has locked its row for a while.
func TestAttachLocked(t *testing.T) {
	subtest(t, "waits until the row is free", func(f *fixture) {
		f.lockedFor(4 * time.Second)
		began := time.Now()
		f.attach("s-1")
		require.Less(f, time.Since(began), 5*time.Second)
		require.Equal(f, session.Active, f.row("s-1").Status)
		calls, _ := f.db.takeCounts()
		require.LessOrEqual(f, calls["Attach"], 8, "with pauses")
	})
	subtest(t, "for no longer than the record timeout, and then says why", func(f *fixture) {
		f.lockedFor(time.Hour)
		for _, limit := range []time.Duration{300 * time.Millisecond, 3 * time.Second} {
			f.cfg.RecordTimeout = limit
			began := time.Now()
			_, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: began},
				f.config(f.newKeeper("here")))
			require.ErrorIs(f, err, context.DeadlineExceeded)
			require.Equal(f, limit, time.Since(began))
			if limit > session.LockWait {
				require.ErrorIs(f, err, session.ErrLocked)
			}
		}
	})
	subtest(t, "another error is returned at once", func(f *fixture) {
		f.db.onCall(func(_ context.Context, call string) error {
			if call == "Attach" {
				return session.ErrUnreadable
			}
			return nil
		})
		began := time.Now()
		_, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: began}, f.config(f.keeper()))
		require.ErrorIs(f, err, session.ErrUnreadable)
		require.Zero(f, time.Since(began))
	})
}
