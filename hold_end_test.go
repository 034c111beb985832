package watchdog_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// A hookedReader is a store that calls a hook at the next read of a run.
type hookedReader struct {
	watchdog.EventStore
	hook atomic.Pointer[func()]
}

func (s *hookedReader) Read(ctx context.Context, aggregateType, aggregateID string) ([]watchdog.Event, error) {
	if hook := s.hook.Swap(nil); hook != nil {
		(*hook)()
	}
	return s.EventStore.Read(ctx, aggregateType, aggregateID)
}

func TestHoldClosedWhileRecording(t *testing.T) {
	for _, pollOnly := range []bool{false, true} {
		mode := map[bool]string{false: ", with a timer", true: ", without one"}[pollOnly]
		// recording attaches a run whose wall clock is used up, and extended by another process. Its hold is closed while the
		// run asks the store.
		recording := func(
			b *fixture, extend bool, onSignal func(watchdog.Signal), open func(wd *watchdog.Watchdog) *watchdog.Hold,
		) *watchdog.Watchdog {
			operator := b.attach()
			store := &hookedReader{EventStore: b.store}
			b.cfg.OnSignal = onSignal
			b.cfg.Store, b.cfg.PollOnly, b.cfg.Budget.Idle = store, pollOnly, 10*minute
			wd := b.attach()
			hold := open(wd)
			if extend {
				require.NoError(b.t, operator.Extend(time.Hour))
			}
			closed := false
			b.clock.Add(4 * time.Hour)
			synctest.Wait()
			closeIt := func() { closed = hold.Close() }
			store.hook.Store(&closeIt)
			b.pass(1)
			_, _ = wd.Fired()
			require.True(b.t, closed, "it did not wait, and closed the hold")
			require.False(b.t, hold.Close())
			return wd
		}
		own := func(wd *watchdog.Watchdog) *watchdog.Hold { return openHold(t, wd, "tool") }
		runFixture(t, "it is closed if the run was given more time meanwhile"+mode, func(b *fixture) {
			wd := recording(b, true, nil, own)
			b.live(wd)
			b.pass(10 * minute)
			b.live(wd)
			b.pass(1)
			_, fired := wd.Fired()
			require.True(b.t, fired)
			requireStop(b.t, wd, watchdog.IdleExceeded)
		})
		t.Run("its trace has the release if the run goes on, and ends with the decision if not"+mode, func(t *testing.T) {
			for extended, want := range map[bool][]string{
				true:  {watchdog.SignalAttach, watchdog.SignalHold, watchdog.SignalRelease, watchdog.SignalExtend},
				false: {watchdog.SignalAttach, watchdog.SignalHold, watchdog.SignalEnd},
			} {
				inFixture(t, func(b *fixture) {
					var kinds []string
					recording(b, extended, func(s watchdog.Signal) { kinds = append(kinds, s.Kind) }, own)
					synctest.Wait()
					require.Equal(t, want, kinds, "extended: %v", extended)
				})
			}
		})
	}
}

// A hostContext is a context of the host's own, which counts who waits for its end. It calls the host at the end of a
// registration.
type hostContext struct {
	context.Context
	waiting atomic.Int32
	atStop  func()
}

func (c *hostContext) Done() <-chan struct{} { return make(chan struct{}) }

func (c *hostContext) AfterFunc(func()) (stop func() bool) {
	c.waiting.Add(1)
	return func() bool {
		c.waiting.Add(-1)
		c.atStop()
		return true
	}
}

func TestHoldLetsGoOfContext(t *testing.T) {
	cfg := watchdog.Config{Budget: watchdog.Budget{WallClock: time.Hour}}
	for name, end := range map[string]func(wd *watchdog.Watchdog){
		"at the run's close":     func(wd *watchdog.Watchdog) { require.NoError(t, wd.Close()) },
		"at the run's stop":      func(wd *watchdog.Watchdog) { after(wd.Remaining() + 1) },
		"at the run's interrupt": func(wd *watchdog.Watchdog) { require.NoError(t, wd.Interrupt("SIGINT")) },
	} {
		runBubble(t, name+", with no lock held", cfg, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
			for _, run := range []*watchdog.Watchdog{openLayer(t, wd, "build", watchdog.Budget{WallClock: minute}), wd} {
				ctx := &hostContext{Context: context.Background(), atStop: func() {
					run.Elapsed() // takes the run's lock, as does the next
					wd.SinceActivity()
				}}
				for _, key := range []string{"one", "other"} {
					_, err := run.Hold(ctx, key, noCap)
					require.NoError(t, err)
				}
				require.EqualValues(t, 2, ctx.waiting.Load())
				end(run)
				synctest.Wait()
				require.Zero(t, ctx.waiting.Load())
			}
		})
	}
	runBubble(t, "at its own close", cfg, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
		ctx := &hostContext{Context: context.Background(), atStop: func() { wd.Elapsed() }}
		h, err := wd.Hold(ctx, "tool", noCap)
		require.NoError(t, err)
		require.True(t, h.Close())
		require.Zero(t, ctx.waiting.Load())
	})
	t.Run("so that nothing of a run that has ended is kept while the context lasts", func(t *testing.T) {
		ctx := t.Context()
		run := func() weak.Pointer[watchdog.Watchdog] {
			wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()},
				watchdog.Config{Store: &watchdog.Memory{}, Logger: quiet})
			require.NoError(t, err)
			_, err = wd.Hold(ctx, "tool", noCap)
			require.NoError(t, err)
			require.NoError(t, wd.Close())
			return weak.Make(wd)
		}()
		for range 10 {
			runtime.GC()
		}
		require.Nil(t, run.Value())
	})
}
