package watchdog_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// requireComplete reports that a run cannot be attached because it is complete.
func (b *fixture) requireComplete() {
	b.t.Helper()
	_, err := watchdog.New(b.t.Context(), b.run, b.cfg)
	require.ErrorIs(b.t, err, watchdog.ErrComplete)
	require.ErrorContains(b.t, err, "Resume")
	require.ErrorContains(b.t, err, "s-1")
}

func TestComplete(t *testing.T) {
	runFixture(t, "a finished run never fires, however late it is attached", func(b *fixture) {
		wd := b.attach()
		b.pass(time.Hour)
		require.NoError(b.t, wd.Complete())
		require.ErrorIs(b.t, context.Cause(wd.Context()), watchdog.ErrComplete)
		_, fired := wd.Fired()
		require.False(b.t, fired)
		require.NoError(b.t, wd.Complete(), "it is complete already")
		require.NoError(b.t, wd.Close())
		require.ErrorIs(b.t, wd.Extend(time.Hour), watchdog.ErrComplete)
		b.pass(100 * 24 * time.Hour)
		b.requireComplete()
		require.Len(b.t, b.events(watchdog.EventComplete), 1)
		require.Empty(b.t, b.events(watchdog.EventCancel))
	})
	runFixture(t, "nor with a later start of the host", func(b *fixture) {
		require.NoError(b.t, b.attach().Complete())
		b.pass(30 * 24 * time.Hour)
		b.run.StartedAt = b.clock.Now()
		b.requireComplete()
	})
	runFixture(t, "a run that its host closed or whose parent ended cannot be complete", func(b *fixture) {
		wd := b.attach()
		require.NoError(b.t, wd.Close())
		require.ErrorIs(b.t, wd.Complete(), watchdog.ErrEnded)
		require.ErrorIs(b.t, wd.Complete(), watchdog.ErrClosed)
		require.ErrorIs(b.t, (*watchdog.Watchdog)(nil).Complete(), watchdog.ErrEnded)
	})
	t.Run("calls at once share one try and its error, so that none waits for all the others", func(t *testing.T) {
		for _, pollOnly := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				store := &flakyStore{hang: make(chan struct{})}
				wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
					Store: store, Logger: quiet, PollOnly: pollOnly,
				})
				require.NoError(t, err)
				var calls sync.WaitGroup
				for i := range 10 {
					calls.Go(func() {
						time.Sleep(time.Duration(i/5) * time.Second) // fake time
						began := time.Now()
						require.ErrorIs(t, wd.Complete(), context.DeadlineExceeded)
						require.LessOrEqual(t, time.Since(began), watchdog.DefaultRecordTimeout)
					})
				}
				calls.Wait()
				require.NoError(t, wd.Context().Err())
				store.set(func(s *flakyStore) { s.hang = nil })
				require.NoError(t, wd.Complete())
				require.NoError(t, wd.Close())
			})
		}
	})
	runFixture(t, "what the run signals meanwhile is not forgotten if it goes on", func(b *fixture) {
		b.cfg.Budget.Idle = 3 * time.Second
		wd, hang := b.attach(), make(chan struct{})
		b.store.set(func(s *flakyStore) { s.hang = hang })
		done := make(chan error)
		go func() { done <- wd.Complete() }()
		for range 5 {
			synctest.Wait()
			b.pass(time.Second)
			wd.Activity()
		}
		require.Error(b.t, <-done)
		synctest.Wait()
		b.live(wd)
		close(hang)
	})
	t.Run("of complete and cancel at one moment one counts, for everybody", func(t *testing.T) {
		for range 200 {
			inFixture(t, func(b *fixture) {
				one, other := b.attach(), b.attach()
				var both sync.WaitGroup
				both.Go(func() { _ = one.Complete() })
				both.Go(func() { _, _ = other.Cancel(watchdog.Cancellation{Reason: "host_gone"}) })
				both.Wait()
				require.Len(t, append(b.events(watchdog.EventComplete), b.events(watchdog.EventCancel)...), 1)
				require.Equal(t, context.Cause(one.Context()).Error(), context.Cause(other.Context()).Error())
			})
		}
	})
}

// TestCorrection protects that a cancel which was wrong does not count: its command had finished by itself.
func TestCorrection(t *testing.T) {
	inFixture(t, func(b *fixture) {
		b.attach()
		b.pass(over)
		id := b.events(watchdog.EventCancel)[0].ID
		b.put(1, watchdog.EventCorrection, `{"cancel_id":"another","session_started_at":"2026-05-01T12:00:00Z"}`)
		b.stopped(b.attach())
		b.put(2, watchdog.EventCorrection, `{"cancel_id":"`+id+`","session_started_at":"2026-05-01T12:00:00Z"}`)
		b.requireComplete()
		b.live(b.resume())
	})
}
