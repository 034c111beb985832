package watchdog_test

import (
	"context"
	"io"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// A closingWriter is the output of a log that closes the watchdog when it is written to.
type closingWriter struct {
	wd atomic.Pointer[watchdog.Watchdog]
}

func (c *closingWriter) Write(p []byte) (int, error) {
	_ = c.wd.Load().Close()
	return len(p), nil
}

var _ io.Writer = (*closingWriter)(nil)

func TestHostEndsGoroutine(t *testing.T) {
	budget := watchdog.Budget{
		WallClock: time.Hour, Idle: minute, Ladders: watchdog.Ladders{Idle: many(watchdog.DirectiveWait, 9)},
	}
	// elsewhere makes a call on a goroutine that it may end.
	elsewhere := func(call func()) {
		go call()
		synctest.Wait()
	}
	for _, pollOnly := range []bool{false, true} {
		name := map[bool]string{false: "with a timer ", true: "on the caller's goroutine "}[pollOnly]
		runBubble(t, name+"in every subscriber, and all get every directive", watchdog.Config{Budget: budget, PollOnly: pollOnly}, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
			var told [2]atomic.Int32
			for i := range told {
				wd.Subscribe(func(watchdog.Directive) {
					told[i].Add(1)
					runtime.Goexit()
				})
			}
			for range 3 {
				after(minute + time.Second)
				elsewhere(func() { wd.Fired() })
			}
			require.EqualValues(t, 3, told[0].Load())
			require.EqualValues(t, 3, told[1].Load())
			after(time.Hour)
			elsewhere(func() { wd.Fired() })
			require.NotNil(t, wd.Stop())
		})
		t.Run(name+"in OnSignal and OnWarning, and the run ends at its limit", func(t *testing.T) {
			var signals, warnings atomic.Int32
			synctest.Test(t, func(t *testing.T) {
				cfg := watchdog.Config{
					Store: &flakyStore{}, Logger: quiet, PollOnly: pollOnly,
					Budget:    watchdog.Budget{WallClock: time.Hour, WarnAt: []float64{0.5, 0.6}},
					OnWarning: func(watchdog.Warning) { warnings.Add(1); runtime.Goexit() },
					OnSignal: func(s watchdog.Signal) {
						if signals.Add(1); s.Kind != watchdog.SignalAttach {
							runtime.Goexit()
						}
					},
				}
				wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, cfg)
				require.NoError(t, err)
				elsewhere(wd.Activity)
				for range 2 {
					after(40 * minute)
					elsewhere(func() { wd.Fired() })
				}
				requireStop(t, wd, watchdog.WallClockExceeded)
				require.NoError(t, wd.Close())
			})
			require.EqualValues(t, 3, signals.Load())
			require.EqualValues(t, 2, warnings.Load())
		})
		runFixture(t, name+"in the store, and the run ends at its limit", func(b *fixture) {
			b.cfg.PollOnly = pollOnly
			b.cfg.Store = &lateReader{EventStore: b.store, before: runtime.Goexit}
			wd := b.attach()
			b.pass(over)
			elsewhere(func() { wd.Fired() })
			require.ErrorIs(b.t, context.Cause(wd.Context()), watchdog.WallClockExceeded)
		})
		runFixture(t, name+"in the store, and every run that ends then is recorded", func(b *fixture) {
			var once atomic.Bool
			b.cfg.PollOnly, b.cfg.Store = pollOnly, &lateReader{EventStore: b.store, before: func() {
				if !once.Swap(true) {
					runtime.Goexit()
				}
			}}
			wd := b.attach()
			layer, err := wd.Layer("step", watchdog.Budget{})
			require.NoError(b.t, err)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = layer.Try(context.Background(), func(ctx context.Context) error { <-ctx.Done(); return nil })
			}()
			synctest.Wait()
			hold, err := layer.Hold(context.Background(), "tool", watchdog.HoldLimit{})
			require.NoError(b.t, err)
			b.clock.Add(over)
			elsewhere(func() { hold.Close() }) // looks at both
			elsewhere(func() { wd.Fired() })
			elsewhere(func() { layer.Fired() })
			for _, one := range []*watchdog.Watchdog{wd, layer} {
				require.ErrorIs(b.t, context.Cause(one.Context()), watchdog.WallClockExceeded)
			}
			<-ended
		})
		t.Run(name+"a log that closes the watchdog waits for nothing", func(t *testing.T) {
			closer := &closingWriter{}
			synctest.Test(t, func(t *testing.T) {
				store := &flakyStore{fail: errDiskFull}
				wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
					Store: store, Logger: slog.New(slog.NewTextHandler(closer, nil)), PollOnly: pollOnly, Budget: budget,
				})
				require.NoError(t, err)
				closer.wd.Store(wd)
				after(minute + 1)
				wd.Fired()
				synctest.Wait()
				require.ErrorIs(t, context.Cause(wd.Context()), watchdog.ErrClosed)
			})
		})
	}
}
