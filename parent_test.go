package watchdog_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

var errHostGone = errors.New("host gone")

// manyErrors cannot be compared, as go/scanner's ErrorList.
type manyErrors []error

func (e manyErrors) Error() string { return errors.Join(e...).Error() }

func TestParent(t *testing.T) {
	t.Run("its cause is the run's at once, whoever asks first", func(t *testing.T) {
		type key struct{}
		for name, contextOf := range map[string]func(wd *watchdog.Watchdog) context.Context{
			"the run's context": (*watchdog.Watchdog).Context,
			"one with a value": func(wd *watchdog.Watchdog) context.Context {
				return context.WithValue(wd.Context(), key{}, 1)
			},
			"a layer's": func(wd *watchdog.Watchdog) context.Context {
				step := openLayer(t, wd, "build", watchdog.Budget{})
				return step.Context()
			},
		} {
			for range 100 { // outside of a bubble, where nobody waits for the goroutine that tells of the parent's end
				parent, end := context.WithCancelCause(context.Background())
				wd := guardUnder(parent, t, watchdog.Config{Store: &watchdog.Memory{}})
				ctx := contextOf(wd)
				end(errHostGone)
				require.ErrorIs(t, context.Cause(ctx), errHostGone, name)
				require.NoError(t, wd.Close())
			}
		}
	})
	runFixture(t, "its cause may be of a type that cannot be compared", func(b *fixture) {
		parent, end := context.WithCancelCause(context.Background())
		wd := b.under(parent)
		end(manyErrors{errHostGone})
		require.Equal(b.t, context.Canceled, wd.Context().Err())
		var many manyErrors
		require.ErrorAs(b.t, context.Cause(wd.Context()), &many)
	})
	runSynced(t, "its deadline and its values are the run's", func(t *testing.T) {
		type key struct{}
		parent, stop := context.WithTimeout(context.WithValue(context.Background(), key{}, "v"), time.Minute)
		defer stop()
		wd := guardUnder(parent, t, watchdog.Config{Store: &watchdog.Memory{}})
		require.Equal(t, "v", wd.Context().Value(key{}))
		want, _ := parent.Deadline()
		got, _ := wd.Context().Deadline()
		require.Equal(t, want, got)
		<-wd.Context().Done()
		require.Equal(t, context.DeadlineExceeded, wd.Context().Err())
	})
}

func TestInterrupt(t *testing.T) {
	runFixture(t, "it ends the run, is recorded, and the window goes on with the next attach", func(b *fixture) {
		wd := b.attach()
		b.pass(time.Hour)
		require.NoError(b.t, wd.Interrupt("SIGINT"))
		var interruption *watchdog.Interruption
		require.ErrorAs(b.t, context.Cause(wd.Context()), &interruption)
		require.Equal(b.t, "SIGINT", interruption.By)
		_, fired := wd.Fired()
		require.False(b.t, fired)
		require.Len(b.t, b.events(watchdog.EventInterrupt), 1)
		b.pass(time.Hour)
		require.Equal(b.t, 2*time.Hour, b.attach().Remaining())
	})
	runFixture(t, "the run ends also where the interrupt cannot be recorded", func(b *fixture) {
		wd := b.attach()
		b.store.set(func(s *flakyStore) { s.fail = errDiskFull })
		require.ErrorIs(b.t, wd.Interrupt("SIGINT"), errDiskFull)
		require.Error(b.t, wd.Context().Err())
	})
	runFixture(t, "a signal without a name is refused and changes nothing", func(b *fixture) {
		wd := b.attach()
		for _, signal := range []string{"", "  ", "a\nb", strings.Repeat("x", 101)} {
			require.ErrorIs(b.t, wd.Interrupt(signal), watchdog.ErrInvalid)
		}
		b.live(wd)
	})
}

// An ownContext is of the host's own type, and never ends. It calls the host when somebody registers to be told of its
// end, and when that is taken back.
type ownContext struct {
	context.Context
	asked, stopped func()
}

func newOwnContext() *ownContext {
	nothing := func() {}
	return &ownContext{Context: context.Background(), asked: nothing, stopped: nothing}
}

func (c *ownContext) Done() <-chan struct{} { return make(chan struct{}) }

func (c *ownContext) AfterFunc(func()) (stop func() bool) {
	c.asked()
	return func() bool { c.stopped(); return true }
}

// returns fails the test if the call, which may wait for a mutex for ever, does not return.
func returns(t *testing.T, call func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		call()
	}()
	select {
	case <-done:
	case <-time.After(3 * time.Second):
		t.Fatal("it hangs")
	}
}

func TestParentEndsWhileRecording(t *testing.T) {
	inFixture(t, func(b *fixture) {
		b.cfg.PollOnly, b.cfg.RecordInterrupts = true, true
		parent, end := context.WithCancelCause(context.Background())
		wd := b.under(parent)
		done, hang, tried := wd.Context().Done(), make(chan struct{}), make(chan error, 1)
		b.store.set(func(s *flakyStore) { s.hang, s.fail = hang, errDiskFull })
		go func() { tried <- wd.Complete() }()
		synctest.Wait()
		end(errHostGone)
		synctest.Wait()
		b.store.set(func(s *flakyStore) { s.fail = nil })
		close(hang)
		require.ErrorIs(t, <-tried, errDiskFull)
		synctest.Wait()
		select {
		case <-done: // nobody has polled, or looked at the context
		default:
			t.Error("the run goes on without its parent")
		}
		require.ErrorIs(t, context.Cause(wd.Context()), errHostGone)
		require.NoError(t, wd.Close())
		require.Len(t, b.events(watchdog.EventInterrupt), 1)
	})
}

func TestParentOfHostIsFollowedWithNoLockHeld(t *testing.T) {
	for name, end := range map[string]func(wd *watchdog.Watchdog){
		"close":     func(wd *watchdog.Watchdog) { wd.Close() },
		"cancel":    func(wd *watchdog.Watchdog) { wd.Cancel(noOutput) },
		"complete":  func(wd *watchdog.Watchdog) { wd.Complete() },
		"interrupt": func(wd *watchdog.Watchdog) { wd.Interrupt("SIGINT") },
	} {
		for _, pollOnly := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				parent, stopped := newOwnContext(), make(chan struct{})
				var run *watchdog.Watchdog
				var attached atomic.Bool // before, it is asked for each exchange
				parent.asked = func() {
					if run != nil {
						run.Elapsed()
					}
				}
				parent.stopped = func() {
					if attached.Load() {
						run.Elapsed()
						close(stopped) // once
					}
				}
				cfg := watchdog.Config{Store: &flakyStore{}, PollOnly: pollOnly}
				cfg.Keeper = keeperFunc(func(wd *watchdog.Watchdog) { run = wd })
				var wd *watchdog.Watchdog
				returns(t, func() {
					wd = guardUnder(parent, t, cfg)
					attached.Store(true)
				})
				returns(t, func() { end(wd) })
				returns(t, func() { <-stopped })
				require.NoError(t, wd.Close())
			})
		}
	}
}

type keeperFunc func(wd *watchdog.Watchdog)

func (f keeperFunc) Keep(_ context.Context, wd *watchdog.Watchdog) (watchdog.Attempt, error) {
	f(wd)
	return watchdog.Attempt{}, nil
}

func (keeperFunc) Ended(context.Context, *watchdog.Watchdog) {}

// TestParentKeepsNothing protects a parent that lives long, such as that of a server, from keeping something of every
// run that has ended.
func TestParentKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent := newOwnContext()
		var followed atomic.Int32
		parent.asked = func() { followed.Add(1) }
		parent.stopped = func() { followed.Add(-1) }
		wd := guardUnder(parent, t, watchdog.Config{Store: &flakyStore{}})
		require.EqualValues(t, 1, followed.Load())
		require.NoError(t, wd.Close())
		synctest.Wait()
		require.Zero(t, followed.Load())
		_, err := watchdog.New(parent, watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
			Store: &flakyStore{failGet: errDiskFull}, Logger: quiet,
		})
		require.ErrorIs(t, err, errDiskFull)
		require.Zero(t, followed.Load())
	})
}
