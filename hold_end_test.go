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

// TestHoldClosedWhileRecording closes a hold while the run, whose wall clock is used up, asks the store: another process
// has given it more time.
func TestHoldClosedWhileRecording(t *testing.T) {
	for mode, pollOnly := range map[string]bool{"with a timer": false, "without one": true} {
		runFixture(t, mode, func(b *fixture) {
			operator := b.attach()
			store := &hookedReader{EventStore: b.store}
			b.cfg.Store, b.cfg.PollOnly, b.cfg.Budget.Idle = store, pollOnly, 10*minute
			wd := b.attach()
			hold := openHold(b.t, wd, "tool")
			require.NoError(b.t, operator.Extend(time.Hour))
			closed := false
			b.pass(4 * time.Hour)
			closeIt := func() { closed = hold.Close() }
			store.hook.Store(&closeIt)
			b.pass(1)
			_, _ = wd.Fired()
			require.True(b.t, closed, "it did not wait, and closed the hold")
			require.False(b.t, hold.Close())
			b.live(wd)
			b.pass(10 * minute)
			b.live(wd)
			b.pass(1)
			_, fired := wd.Fired()
			require.True(b.t, fired)
			requireStop(b.t, wd, watchdog.IdleExceeded)
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
