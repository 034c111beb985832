package watchdog_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// over is the default budget and one nanosecond.
const over = watchdog.DefaultWallClock + 1

func TestStoreFails(t *testing.T) {
	t.Run("a store that panics is a store that fails", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.Store = &lateReader{EventStore: b.store, before: func() { panic("nil map") }}
			wd := b.attach()
			b.pass(over)
			b.stopped(wd)
			require.ErrorContains(t, wd.Close(), "panicked with a string")
		})
	})
	t.Run("a store that cannot be read at the attach is an error: nobody knows whether the run may go on", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.store.set(func(s *flakyStore) { s.failGet = errDiskFull })
			_, err := watchdog.New(b.t.Context(), b.run, b.cfg)
			require.ErrorIs(t, err, errDiskFull)
		})
	})
}

func TestStoreHangs(t *testing.T) {
	for name, ignoresContext := range map[string]bool{"and heeds its context": false, "and heeds nothing": true} {
		t.Run(name, func(t *testing.T) {
			inFixture(t, func(b *fixture) {
				b.cfg.Budget.WarnAt = []float64{}
				wd := b.attach()
				hang := make(chan struct{})
				b.store.set(func(s *flakyStore) { s.hang, s.ignoresContext = hang, ignoresContext })
				b.pass(over)
				b.pass(watchdog.DefaultRecordTimeout - 1)
				require.NoError(t, wd.Context().Err(), "record, then cancel")
				b.pass(1)
				require.ErrorIs(t, context.Cause(wd.Context()), watchdog.WallClockExceeded)
				b.store.set(func(s *flakyStore) { s.hang = nil })
				close(hang)
				synctest.Wait()
				b.stopped(wd)
				require.NoError(t, wd.Close())
				require.Len(t, b.events(watchdog.EventCancel), 1)
			})
		})
	}
	t.Run("a poll waits for the record, so that every reader sees one stop", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.Budget.WarnAt = []float64{}
			wd := b.attach()
			hang := make(chan struct{})
			b.store.set(func(s *flakyStore) { s.hang = hang })
			b.pass(over)
			polled := make(chan *watchdog.Stop, 1)
			go func() { polled <- wd.Stop() }()
			synctest.Wait()
			require.Empty(t, polled)
			close(hang)
			require.Same(t, <-polled, b.stopped(wd))
		})
	})
}
