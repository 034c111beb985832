package session_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

func TestDatabaseDown(t *testing.T) {
	for name, fail := range map[string]func(ctx context.Context, call string) error{
		"and says so": func(context.Context, string) error { return errDown },
		"and hangs":   func(ctx context.Context, _ string) error { <-ctx.Done(); return context.Cause(ctx) },
	} {
		subtest(t, name+" loses nothing, and its start and end are logged", func(f *fixture) {
			f.start()
			wd, done := f.attach("s-1"), f.attach("s-2")
			f.advance(2 * time.Minute)
			wd.Activity()
			f.db.onCall(fail)
			done.Close()
			for range 300 {
				f.advance(time.Second)
				wd.Activity()
			}
			require.Equal(f, 1, f.log.count("cannot be kept fresh"))
			require.Equal(f, session.Active, f.row("s-2").Status)
			f.db.onCall(nil)
			f.advance(2*watchdog.DefaultRecordTimeout + time.Second)
			require.Less(f, time.Since(f.shown("s-1")), 20*time.Second)
			require.Equal(f, session.Finished, f.row("s-2").Status)
			require.Equal(f, 1, f.log.count("are kept fresh again"))
			f.advance(time.Hour)
			require.Equal(f, 1, f.log.count("cannot be kept fresh"))
			require.Equal(f, 1, f.keeper().Live())
		})
	}
	subtest(t, "only for the rows of live runs: that is an outage, too", func(f *fixture) {
		f.start()
		wd, done := f.attach("s-1"), f.attach("s-2")
		f.db.fail("Freshen")
		f.advance(5 * time.Minute)
		wd.Activity()
		done.Close()
		f.advance(awake)
		require.Equal(f, session.Finished, f.row("s-2").Status)
		require.Equal(f, 1, f.log.count("level=ERROR"))
	})
	subtest(t, "only for the ends of runs: the rows of live runs stay fresh", func(f *fixture) {
		f.start()
		wd, done := f.attach("s-1"), f.attach("s-2")
		f.db.fail("End")
		done.Close()
		f.advance(5 * time.Minute)
		wd.Activity()
		woke := time.Now()
		f.advance(awake)
		require.Equal(f, woke.UTC(), f.shown("s-1"))
		require.Equal(f, 1, f.log.count("level=ERROR"))
		f.db.onCall(nil)
	})
	subtest(t, "not down: a stop of the keeper in the middle of a call is no outage", func(f *fixture) {
		stop := f.run(f.keeper())
		wd := f.attach("s-1")
		f.advance(2 * time.Minute)
		wd.Activity()
		ended := 0
		f.db.onCall(func(ctx context.Context, call string) error {
			if ended++; call == "Freshen" && ended == 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})
		f.advance(awake)
		stop()
		require.Less(f, time.Since(f.shown("s-1")), 2*time.Second+awake, "written by the last flush")
		require.Zero(f, f.log.count("level="))
	})
}

// TestUnrecorded protects that a row does not say that a run was cancelled before its event does.
func TestUnrecorded(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.start()
		wd := f.attach("s-1")
		cfg := f.config(f.keeper())
		events := &failingStore{EventStore: f.db}
		cfg.Store = events
		second, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-2", StartedAt: time.Now()}, cfg)
		require.NoError(t, err)
		events.fails.Store(true)
		f.advance(watchdog.DefaultWallClock + time.Minute)
		require.ErrorIs(t, context.Cause(wd.Context()), watchdog.WallClockExceeded)
		require.ErrorIs(t, context.Cause(second.Context()), watchdog.WallClockExceeded)
		require.Equal(t, session.Cancelled, f.row("s-1").Status)
		require.Error(t, second.Close())
		f.advance(time.Minute)
		require.Equal(t, session.Active, f.row("s-2").Status)
		events.fails.Store(false)
		f.advance(2 * awake)
		require.Equal(t, session.Cancelled, f.row("s-2").Status)
		stored, err := f.db.Memory.Read(context.Background(), watchdog.AggregateType, "s-2")
		require.NoError(t, err)
		require.Equal(t, watchdog.EventCancel, stored[len(stored)-1].Type)
	})
}

// A failingStore is an event store that can fail.
type failingStore struct {
	watchdog.EventStore
	fails atomic.Bool
}

func (s *failingStore) Append(ctx context.Context, events ...watchdog.Event) error {
	if s.fails.Load() {
		return errDown
	}
	return s.EventStore.Append(ctx, events...)
}

func TestDatabaseSlow(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.start()
		wd := f.attach("s-1")
		f.db.onCall(func(context.Context, string) error { time.Sleep(4 * time.Second); return nil })
		for range 600 {
			f.advance(time.Second)
			wd.Activity()
			require.Less(t, time.Since(f.shown("s-1")), time.Minute+10*time.Second)
		}
		require.Zero(t, f.log.count("level="))
		f.db.onCall(nil)
		f.advance(10 * time.Second)
	})
}
