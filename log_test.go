package watchdog_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// TestLogOfCaller protects who attaches to a run, makes a layer or closes it from a log that blocks or panics.
func TestLogOfCaller(t *testing.T) {
	const timeout = time.Second
	blocking := newBlockingLog()
	for name, log := range map[string]slog.Handler{
		"blocks": blocking, "panics": panickingHandler{slog.DiscardHandler},
	} {
		t.Run("that "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				blocking.block = make(chan struct{})
				keeper := &fakeKeeper{
					attempt: watchdog.Attempt{Number: 2, Lost: true}, end: func(context.Context) { panic("keeper") },
				}
				store, began := &flakyStore{fail: errDiskFull}, time.Now()
				took := func(call func() error, limit time.Duration) {
					began := time.Now()
					require.NoError(t, call())
					require.LessOrEqual(t, time.Since(began), limit)
				}
				var wd *watchdog.Watchdog
				took(func() (err error) { // finds that an attempt was lost, cannot record it
					wd, err = watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: began}, watchdog.Config{
						Store: store, Keeper: keeper, RecordTimeout: timeout, Logger: slog.New(log),
						Budget: watchdog.Budget{WallClock: watchdog.NoLimit, Hold: watchdog.NoLimit},
					})
					return err
				}, 2*timeout)
				took(func() error {
					_, err := wd.Layer("step", watchdog.Budget{WallClock: watchdog.NoLimit, Hold: watchdog.NoLimit})
					return err
				}, timeout)
				store.set(func(s *flakyStore) { s.fail = nil })
				took(wd.Close, 2*timeout)
				require.Equal(t, 1, countEvents(t, store, watchdog.EventInterrupt))
				if log == slog.Handler(blocking) {
					require.EqualValues(t, 2, blocking.blocked.Load(), "it was told of all")
				}
				close(blocking.block)
			})
		})
	}
	t.Run("that panics, where nothing is guarded", func(t *testing.T) {
		wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
			Store: &flakyStore{}, Disabled: true, Logger: slog.New(panickingHandler{slog.DiscardHandler}),
		})
		require.NoError(t, err)
		require.NoError(t, wd.Close())
	})
}
