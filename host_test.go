package watchdog_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
)

// fakeKeeper answers what it is told to.
type fakeKeeper struct {
	attempt watchdog.Attempt
	keep    func(ctx context.Context, w *watchdog.Watchdog) error
	end     func(ctx context.Context)

	start     time.Time
	failStart error

	mu    sync.Mutex
	kept  []*watchdog.Watchdog
	ended []*watchdog.Watchdog
}

func (k *fakeKeeper) Ended(ctx context.Context, w *watchdog.Watchdog) {
	k.mu.Lock()
	k.ended = append(k.ended, w)
	k.mu.Unlock()
	if k.end != nil {
		k.end(ctx)
	}
}

func (k *fakeKeeper) Start(context.Context, string) (time.Time, error) { return k.start, k.failStart }

func (k *fakeKeeper) Keep(ctx context.Context, w *watchdog.Watchdog) (watchdog.Attempt, error) {
	k.mu.Lock()
	k.kept = append(k.kept, w)
	k.mu.Unlock()
	if k.keep != nil {
		if err := k.keep(ctx, w); err != nil {
			return watchdog.Attempt{Number: 7, Lost: true}, err
		}
	}
	return k.attempt, nil
}

// inKeepersBed is inFixture with a keeper.
func inKeepersBed(t *testing.T, test func(b *fixture, k *fakeKeeper)) {
	t.Helper()
	inFixture(t, func(b *fixture) {
		k := &fakeKeeper{attempt: watchdog.Attempt{Number: 1}}
		b.cfg.Keeper = k
		test(b, k)
	})
}

// runKept is inKeepersBed for one case of a test.
func runKept(t *testing.T, name string, test func(b *fixture, k *fakeKeeper)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inKeepersBed(t, test) })
}

func TestKeeper(t *testing.T) {
	runKept(t, "by New, guarded, and counts the attempt", func(b *fixture, k *fakeKeeper) {
		b.run.Parent = "p-1"
		k.attempt.Number = 3
		k.keep = func(_ context.Context, w *watchdog.Watchdog) error {
			b.live(w)
			require.Equal(b.t, "p-1", w.Parent())
			require.Equal(b.t, noon, w.StartedAt())
			require.Zero(b.t, w.Attempt())
			return nil
		}
		wd := b.attach()
		require.Equal(b.t, []*watchdog.Watchdog{wd}, k.kept)
		require.Equal(b.t, watchdog.Attempt{Number: 3}, wd.Attempt())
		require.Empty(b.t, b.events(event.Interrupt))
	})
	runKept(t, "by Resume, in its fresh window", func(b *fixture, k *fakeKeeper) {
		b.attach()
		b.pass(over)
		b.pass(time.Hour)
		k.keep = func(_ context.Context, w *watchdog.Watchdog) error {
			require.Equal(b.t, noon.Add(over+time.Hour).Truncate(time.Microsecond), w.StartedAt())
			return nil
		}
		b.live(b.resume())
		require.Len(b.t, k.kept, 2)
	})
	runKept(t, "not where it is fired from the start", func(b *fixture, k *fakeKeeper) {
		b.attach()
		b.pass(over)
		wd := b.attach()
		b.stopped(wd)
		require.Len(b.t, k.kept, 1)
		require.Zero(b.t, wd.Attempt())
	})
	runKept(t, "one whose budget is used up is kept, so that its row says how it ended", func(b *fixture, k *fakeKeeper) {
		b.pass(over)
		b.stopped(b.attach())
		require.Len(b.t, k.kept, 1)
	})
	runKept(t, "a late one that cannot be kept has nothing recorded", func(b *fixture, k *fakeKeeper) {
		b.pass(over)
		k.keep = func(context.Context, *watchdog.Watchdog) error { return io.ErrUnexpectedEOF }
		_, err := watchdog.New(b.t.Context(), b.run, b.cfg)
		require.ErrorIs(b.t, err, io.ErrUnexpectedEOF)
		require.Empty(b.t, b.events(event.Cancel))
		require.Empty(b.t, b.events(event.Warning))
	})
	runKept(t, "nor where it is a layer, whose signs are the run's", func(b *fixture, k *fakeKeeper) {
		wd := b.attach()
		layer := openLayer(b.t, wd, "step", watchdog.Budget{})
		require.Len(b.t, k.kept, 1)
		require.Zero(b.t, layer.Attempt())
		b.pass(minute)
		layer.Activity()
		require.Zero(b.t, wd.SinceActivity())
	})
}

func TestKeeperLostAttempt(t *testing.T) {
	runKept(t, "once, whoever sees it", func(b *fixture, k *fakeKeeper) {
		k.attempt = watchdog.Attempt{Number: 2, Lost: true}
		b.pass(minute)
		wd := b.attach()
		require.True(b.t, wd.Attempt().Lost)
		b.pass(minute)
		b.attach()
		events := b.events(event.Interrupt)
		require.Len(b.t, events, 1)
		var payload map[string]any
		require.NoError(b.t, json.Unmarshal(events[0].Payload, &payload))
		require.Equal(b.t, map[string]any{
			"signal": "attempt_lost", "session_started_at": "2026-05-01T12:00:00.000000Z", "interrupted_at": "2026-05-01T12:01:00.000000Z",
			"elapsed_seconds": 60.0,
		}, payload)
		b.live(wd)
	})
	runKept(t, "for each attempt", func(b *fixture, k *fakeKeeper) {
		for n := 2; n < 5; n++ {
			k.attempt = watchdog.Attempt{Number: n, Lost: true}
			b.attach()
		}
		require.Len(b.t, b.events(event.Interrupt), 3)
	})
	runKept(t, "later, where the store fails just then", func(b *fixture, k *fakeKeeper) {
		k.attempt = watchdog.Attempt{Number: 2, Lost: true}
		b.store.set(func(s *flakyStore) { s.fail = errDiskFull })
		wd := b.attach()
		require.Empty(b.t, b.events(event.Interrupt))
		require.ErrorIs(b.t, wd.Close(), errDiskFull)
		b.store.set(func(s *flakyStore) { s.fail = nil })
		require.NoError(b.t, wd.Close())
		require.Len(b.t, b.events(event.Interrupt), 1)
	})
}

func TestKeeperFails(t *testing.T) {
	attaches := map[string]attachFunc{"New": watchdog.New, "Resume": watchdog.Resume}
	for name, attach := range attaches {
		runKept(t, name+" wraps its error, and leaves nothing armed or recorded", func(b *fixture, k *fakeKeeper) {
			k.keep = func(context.Context, *watchdog.Watchdog) error { return errDiskFull }
			_, err := attach(b.t.Context(), b.run, b.cfg)
			require.ErrorIs(b.t, err, errDiskFull)
			require.ErrorContains(b.t, err, "keep the run for others to see")
			require.ErrorIs(b.t, context.Cause(k.kept[0].Context()), watchdog.ErrClosed)
			require.Zero(b.t, k.kept[0].Attempt())
			b.pass(over)
			require.Zero(b.t, b.store.appends)
		})
	}
	runKept(t, "one that hangs is given up after the record timeout", func(b *fixture, k *fakeKeeper) {
		k.keep = func(ctx context.Context, _ *watchdog.Watchdog) error { <-ctx.Done(); return context.Cause(ctx) }
		failed := make(chan error, 1)
		go func() {
			_, err := watchdog.New(context.Background(), b.run, b.cfg)
			failed <- err
		}()
		synctest.Wait()
		b.pass(watchdog.DefaultRecordTimeout - 1)
		require.Empty(b.t, failed)
		b.pass(1)
		require.ErrorIs(b.t, <-failed, context.DeadlineExceeded)
		require.Zero(b.t, b.store.appends)
	})
	runKept(t, "one that fails with the host's context does not wait", func(b *fixture, k *fakeKeeper) {
		ctx, end := context.WithCancelCause(b.t.Context())
		k.keep = func(ctx context.Context, _ *watchdog.Watchdog) error { end(errHostGone); return context.Cause(ctx) }
		_, err := watchdog.New(ctx, b.run, b.cfg)
		require.ErrorIs(b.t, err, errHostGone)
	})
}

func TestKeeperEndedRun(t *testing.T) {
	inKeepersBed(t, func(b *fixture, k *fakeKeeper) {
		b.cfg.Budget.WarnAt = []float64{}
		b.pass(watchdog.DefaultWallClock)
		k.keep = func(context.Context, *watchdog.Watchdog) error { b.pass(1); return nil }
		wd := b.attach()
		b.stopped(wd)
		require.Equal(t, 1, wd.Attempt().Number)
	})
}

func TestSinceActivity(t *testing.T) {
	runKept(t, "counts signals though no limit heeds them", func(b *fixture, _ *fakeKeeper) {
		wd := b.attach()
		requireSilences(b.t, wd, b.pass)
	})
	runBubble(t, "counts them on the machine's clock, where they take no lock", watchdog.Config{Keeper: &fakeKeeper{}},
		func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) { requireSilences(t, wd, after) })
	runKept(t, "begins with the attach, and not with the window", func(b *fixture, _ *fakeKeeper) {
		b.pass(time.Hour)
		wd := b.attach()
		require.Zero(b.t, wd.SinceActivity())
		b.pass(minute)
		require.Equal(b.t, minute, wd.SinceActivity())
	})
	runFixture(t, "is 0 where nothing heeds signals", func(b *fixture) {
		wd := b.attach()
		b.pass(minute)
		require.Zero(b.t, wd.SinceActivity())
	})
}

// requireSilences says that the silence is since the last sign, and 0 during a hold.
func requireSilences(t *testing.T, wd *watchdog.Watchdog, pass func(time.Duration)) {
	t.Helper()
	require.Zero(t, wd.SinceActivity())
	pass(minute)
	require.Equal(t, minute, wd.SinceActivity())
	wd.Activity()
	require.Zero(t, wd.SinceActivity())
	pass(minute)
	wd.Progress()
	pass(2 * minute)
	require.Equal(t, 2*minute, wd.SinceActivity())
	hold := openHold(t, wd, "build", watchdog.HoldLimit{Cap: time.Hour})
	pass(3 * minute)
	require.Zero(t, wd.SinceActivity())
	hold.Close()
	require.Zero(t, wd.SinceActivity())
	pass(minute)
	require.Equal(t, minute, wd.SinceActivity())
}

func TestKeeperEnded(t *testing.T) {
	runKept(t, "Close and Complete tell it when the run has ended, and wait for it", func(b *fixture, k *fakeKeeper) {
		k.end = func(ctx context.Context) {
			require.Error(b.t, k.kept[len(k.kept)-1].Context().Err())
			require.NoError(b.t, ctx.Err())
		}
		wd := b.attach()
		require.Empty(b.t, k.ended)
		require.NoError(b.t, wd.Close())
		require.Equal(b.t, []*watchdog.Watchdog{wd}, k.ended)
		wd = b.attach()
		require.NoError(b.t, wd.Complete())
		require.Len(b.t, k.ended, 2)
	})
	runKept(t, "also if the host's context has ended", func(b *fixture, k *fakeKeeper) {
		k.end = func(ctx context.Context) { require.NoError(b.t, ctx.Err()) }
		ctx, end := context.WithCancel(context.Background())
		wd := b.under(ctx)
		end()
		require.NoError(b.t, wd.Close())
		require.Len(b.t, k.ended, 1)
	})
	runKept(t, "one that hangs is waited for within the record timeout", func(b *fixture, k *fakeKeeper) {
		release := make(chan struct{})
		k.end = func(context.Context) { <-release }
		wd := b.attach()
		closed := make(chan error, 1)
		go func() { closed <- wd.Close() }()
		synctest.Wait()
		b.pass(watchdog.DefaultRecordTimeout - 1)
		require.Empty(b.t, closed)
		b.pass(1)
		require.NoError(b.t, <-closed)
		close(release)
	})
	runKept(t, "one that was never asked to keep the run is not told", func(b *fixture, k *fakeKeeper) {
		b.attach()
		b.pass(over)
		wd := b.attach()
		k.ended = nil
		require.NoError(b.t, wd.Close())
		require.Empty(b.t, k.ended)
	})
}

// TestKeeperStopped protects a run whose cancel comes between the reading of its events and the attempt's row.
func TestKeeperStopped(t *testing.T) {
	cancelOf := func(b *fixture) watchdog.Event {
		other := attachTo(context.Background(), b.t, b.run, watchdog.Config{Store: &watchdog.Memory{}, Clock: b.clock})
		stop := b.cancelled(other, watchdog.Cancellation{Reason: watchdog.SessionIdleTimeout})
		return watchdog.Event{
			ID: stop.EventID(), AggregateType: event.AggregateType, AggregateID: b.run.ID, Type: event.Cancel,
			Payload: []byte(`{"reason":"idle_timeout","session_started_at":"2026-05-01T12:00:00.000000Z",` +
				`"fired_at":"2026-05-01T12:00:00.000000Z","elapsed_seconds":0,"configured_budget_seconds":0}`),
			Timestamp: noon,
		}
	}
	runKept(t, "New takes the cancel up at once", func(b *fixture, k *fakeKeeper) {
		e := cancelOf(b)
		k.attempt.Stopped = true
		k.keep = func(ctx context.Context, _ *watchdog.Watchdog) error { return b.cfg.Store.Append(ctx, e) }
		wd := b.attach()
		require.ErrorIs(b.t, context.Cause(wd.Context()), watchdog.SessionIdleTimeout)
	})
	runKept(t, "a run whose row only looks so goes on", func(b *fixture, k *fakeKeeper) {
		k.attempt.Stopped = true
		b.live(b.attach())
	})
	runKept(t, "New fails if it cannot read why", func(b *fixture, k *fakeKeeper) {
		k.attempt.Stopped = true
		k.keep = func(context.Context, *watchdog.Watchdog) error {
			b.store.set(func(s *flakyStore) { s.failGet = errDiskFull })
			return nil
		}
		_, err := watchdog.New(b.t.Context(), b.run, b.cfg)
		require.ErrorIs(b.t, err, errDiskFull)
		require.ErrorContains(b.t, err, "read why the run was stopped")
		require.Len(b.t, k.ended, 1)
	})
	runKept(t, "Resume does not read again: its window is a fresh one", func(b *fixture, k *fakeKeeper) {
		b.attach()
		b.pass(over)
		b.pass(time.Hour)
		k.attempt.Stopped = true
		b.live(b.resume())
	})
}

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
		require.False(b.t, hasFired(wd))
		require.Len(b.t, b.events(event.Interrupt), 1)
		b.pass(time.Hour)
		require.Equal(b.t, 2*time.Hour, b.attach().Remaining())
	})
	runFixture(t, "the run ends also where the interrupt cannot be recorded", func(b *fixture) {
		wd := b.attach()
		b.store.set(func(s *flakyStore) { s.fail = errDiskFull })
		require.ErrorIs(b.t, wd.Interrupt("SIGINT"), errDiskFull)
		require.Error(b.t, wd.Context().Err())
		b.store.set(func(s *flakyStore) { s.fail = nil })
		b.pass(time.Minute)
		require.Len(b.t, b.events(event.Interrupt), 1, "it is tried again, by itself")
		require.NoError(b.t, wd.Close())
	})
	runFixture(t, "of a loop that panicked Close tries it again", func(b *fixture) {
		once := &hookedStore{EventStore: b.store}
		once.append = func([]watchdog.Event) error {
			once.append = nil
			return errDiskFull
		}
		b.cfg.Store = once
		require.PanicsWithValue(b.t, "lost", func() {
			_ = watchdog.Do(context.Background(), b.run, b.cfg, func(context.Context, *watchdog.Watchdog) error {
				panic("lost")
			})
		})
		require.Nil(b.t, once.append)
		require.Len(b.t, b.events(event.Interrupt), 1)
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
		require.Len(t, b.events(event.Interrupt), 1)
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

func (keeperFunc) Start(context.Context, string) (time.Time, error) { return time.Time{}, nil }

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
