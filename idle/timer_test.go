package idle_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/idle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bubble runs a subtest with fake time.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

const limit time.Duration = time.Minute

// pass lets time pass, and what is due then happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// requireSilent checks that the context has ended for its silence, after a time.
func requireSilent(ctx context.Context, t *testing.T, timer *idle.Timer, elapsed, budget time.Duration) {
	t.Helper()
	require.ErrorIs(t, ctx.Err(), context.Canceled)
	stop, stopped := timer.Stopped()
	require.True(t, stopped)
	require.Same(t, stop, context.Cause(ctx))
	require.Equal(t, watchdog.IdleExceeded, stop.Code)
	require.Equal(t, elapsed, stop.Elapsed)
	require.Equal(t, budget, stop.Budget)
	require.Empty(t, stop.RunID)
}

func requireAlive(ctx context.Context, t *testing.T, timer *idle.Timer) {
	t.Helper()
	require.NoError(t, ctx.Err())
	_, stopped := timer.Stopped()
	require.False(t, stopped)
}

func TestLimit(t *testing.T) {
	bubble(t, "a sign of life begins the silence anew, to the nanosecond", func(t *testing.T) {
		ctx, timer := within(t.Context(), t, limit)
		for range 100 {
			pass(limit)
			timer.Alive()
		}
		pass(limit)
		requireAlive(ctx, t, timer)
		pass(1)
		requireSilent(ctx, t, timer, limit+1, limit)
	})
	bubble(t, "signs within a millisecond count as one at its end", func(t *testing.T) {
		ctx, timer := within(t.Context(), t, limit)
		pass(time.Second)
		for range 10 {
			timer.Alive()
			pass(10 * time.Microsecond)
		}
		pass(limit)
		requireAlive(ctx, t, timer)
		pass(time.Millisecond)
		require.Error(t, ctx.Err())
	})
	t.Run("a limit of 0 or less, and none, are off", func(t *testing.T) {
		for _, off := range []time.Duration{0, -1, watchdog.NoLimit} {
			synctest.Test(t, func(t *testing.T) {
				ctx, timer := idle.WithLimit(t.Context(), off)
				narrow := timer.Widen(time.Second)
				pass(1000 * time.Hour)
				narrow()
				timer.Alive()
				pass(1000 * time.Hour)
				requireAlive(ctx, t, timer)
				timer.Close()
				require.Equal(t, context.Canceled, context.Cause(ctx))
			})
		}
	})
	bubble(t, "the longest limit that there can be does not overflow", func(t *testing.T) {
		ctx, timer := within(t.Context(), t, watchdog.NoLimit-1)
		pass(1000 * time.Hour)
		requireAlive(ctx, t, timer)
	})
	bubble(t, "a stop is a timeout, and says what to do", func(t *testing.T) {
		ctx, timer := within(t.Context(), t, limit)
		pass(2 * limit)
		cause := context.Cause(ctx)
		require.EqualError(t, cause, "stopped: watchdog_idle_exceeded: no sign of life for 1 min 0 s of 1 min; "+
			"begin again, or raise the limit if it needs longer")
		require.ErrorIs(t, cause, watchdog.IdleExceeded)
		require.True(t, os.IsTimeout(cause))
		stop, _ := timer.Stopped()
		require.Empty(t, stop.EventID())
		require.WithinDuration(t, time.Now().Add(-limit), stop.FiredAt, time.Microsecond)
		require.Equal(t, limit, stop.FiredAt.Sub(stop.StartedAt))
		require.Equal(t, time.UTC, stop.FiredAt.Location())
	})
}

// TestEnds checks what ends a context besides its silence.
// TestRingsLate protects that a pause of the guard is nobody's silence.
func TestRingsLate(t *testing.T) {
	const grace = 5 * time.Second // of a limit of a minute
	late := func(t *testing.T, name string, test func(ctx context.Context, t *testing.T, timer *idle.Timer)) {
		t.Helper()
		bubble(t, name, func(t *testing.T) {
			ctx, timer := idle.WithLimit(t.Context(), limit)
			defer timer.Close()
			pass(limit)
			timer.RingLate(grace + 1)
			pass(1)
			requireAlive(ctx, t, timer)
			test(ctx, t, timer)
		})
	}
	late(t, "a sign in the grace begins the silence again", func(ctx context.Context, t *testing.T, timer *idle.Timer) {
		pass(grace - 1)
		timer.Alive()
		pass(limit)
		requireAlive(ctx, t, timer)
		pass(1)
		requireSilent(ctx, t, timer, limit+1, limit)
	})
	late(t, "without one it is silent since the last", func(ctx context.Context, t *testing.T, timer *idle.Timer) {
		pass(grace - 1)
		requireAlive(ctx, t, timer)
		pass(1)
		requireSilent(ctx, t, timer, limit+1+grace, limit)
	})
	late(t, "three late rings have a grace, and no more", func(ctx context.Context, t *testing.T, timer *idle.Timer) {
		for range 2 {
			timer.RingLate(grace + 1)
			pass(grace)
			requireAlive(ctx, t, timer)
		}
		timer.RingLate(grace + 1)
		pass(grace)
		requireSilent(ctx, t, timer, limit+1+3*grace, limit)
	})
	bubble(t, "a little late is not late", func(t *testing.T) {
		ctx, timer := idle.WithLimit(t.Context(), limit)
		defer timer.Close()
		timer.RingLate(grace)
		pass(limit + 1)
		requireSilent(ctx, t, timer, limit+1, limit)
	})
}

func TestEnds(t *testing.T) {
	bubble(t, "the parent's end is not a stop", func(t *testing.T) {
		parent, cancel := context.WithCancelCause(t.Context())
		ctx, timer := within(parent, t, limit)
		gone := errors.New("gone")
		cancel(gone)
		pass(2 * limit)
		require.Equal(t, gone, context.Cause(ctx))
		_, stopped := timer.Stopped()
		require.False(t, stopped)
	})
	bubble(t, "nor is that of a parent which was silent", func(t *testing.T) {
		outer, around := within(t.Context(), t, limit)
		ctx, timer := within(outer, t, 2*limit)
		pass(3 * limit)
		requireSilent(outer, t, around, limit+1, limit)
		require.Equal(t, context.Cause(outer), context.Cause(ctx))
		_, stopped := timer.Stopped()
		require.False(t, stopped)
	})
	bubble(t, "Close ends it, also before the first look and again", func(t *testing.T) {
		ctx, timer := idle.WithLimit(t.Context(), limit)
		timer.Close()
		timer.Close()
		require.Equal(t, context.Canceled, context.Cause(ctx))
		pass(2 * limit)
		timer.Alive()
		timer.Widen(limit)()
		pass(2 * limit)
		_, stopped := timer.Stopped()
		require.False(t, stopped)
	})
}

func TestNil(t *testing.T) {
	timer := idle.FromContext(t.Context())
	require.Nil(t, timer)
	timer.Alive()
	timer.Widen(limit)()
	timer.Begin("call", limit)
	timer.End("call")
	timer.Close()
	stop, stopped := timer.Stopped()
	require.Nil(t, stop)
	require.False(t, stopped)
}

func TestContext(t *testing.T) {
	t.Run("it carries its timer and what the parent carries", func(t *testing.T) {
		type key struct{}
		parent, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "value"), time.Hour)
		defer cancel()
		ctx, timer := within(parent, t, limit)
		inner, cancelInner := context.WithCancel(ctx)
		defer cancelInner()
		require.Same(t, timer, idle.FromContext(inner))
		require.Equal(t, "value", inner.Value(key{}))
		deadline, ok := ctx.Deadline()
		require.True(t, ok)
		expected, _ := parent.Deadline()
		require.Equal(t, expected, deadline)
	})
	bubble(t, "contexts made from it cost no goroutine", func(t *testing.T) {
		ctx, timer := idle.WithLimit(t.Context(), limit)
		child, cancel := context.WithCancel(ctx) // a goroutine would hold the bubble up
		_ = cancel
		timer.Close()
		require.Error(t, child.Err())
	})
}

// TestInside checks that a sign of life is one of everything around it.
func TestInside(t *testing.T) {
	bubble(t, "a run", func(t *testing.T) {
		wd := newRun(t, watchdog.Config{Budget: watchdog.Budget{Idle: 2 * limit}})
		wd.Note("reading")
		ctx, timer := within(wd.Context(), t, limit)
		for range 100 {
			pass(limit)
			timer.Alive()
		}
		require.NoError(t, ctx.Err())
		pass(limit + 1)
		requireSilent(ctx, t, timer, limit+1, limit)
		stop, _ := timer.Stopped()
		require.Equal(t, "reading", stop.Note)
		require.NoError(t, wd.Context().Err())
		pass(limit - 1)
		require.NoError(t, wd.Context().Err())
		pass(1)
		require.ErrorIs(t, context.Cause(wd.Context()), watchdog.IdleExceeded)
	})
	bubble(t, "a layer and the run around it", func(t *testing.T) {
		wd := newRun(t, watchdog.Config{Budget: watchdog.Budget{Idle: limit}})
		layer, err := wd.Layer("step", watchdog.Budget{Idle: limit})
		require.NoError(t, err)
		defer layer.Close()
		_, timer := within(layer.Context(), t, limit)
		for range 10 {
			pass(limit)
			timer.Alive()
		}
		require.NoError(t, layer.Context().Err())
		require.NoError(t, wd.Context().Err())
	})
	bubble(t, "a run without a limit of silence", func(t *testing.T) {
		wd := newRun(t, watchdog.Config{})
		_, timer := within(wd.Context(), t, limit)
		timer.Alive()
	})
	bubble(t, "timers around", func(t *testing.T) {
		outer, around := within(t.Context(), t, limit)
		pass(limit / 2)
		ctx, timer := within(outer, t, watchdog.NoLimit)
		for range 10 {
			pass(limit / 2)
			timer.Alive()
		}
		requireAlive(outer, t, around)
		around.Alive()
		pass(limit + 1)
		requireSilent(outer, t, around, limit+1, limit)
		require.Error(t, ctx.Err())
	})
}

// newRun guards a run until the end of the test.
func newRun(t *testing.T, cfg watchdog.Config) *watchdog.Watchdog {
	t.Helper()
	cfg.Store = &watchdog.Memory{}
	cfg.Budget.WallClock = watchdog.NoLimit
	wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "session-1", StartedAt: time.Now()}, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, wd.Close()) })
	return wd
}

// TestCancel checks what ends a context that existed before its timer.
func TestCancel(t *testing.T) {
	bubble(t, "silence ends it, with the stop as its cause, and once", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		calls := 0
		guarded, timer := newTimer(t, idle.Config{Limit: limit, Cancel: func(cause error) { calls++; cancel(cause) }})
		pass(limit)
		require.NoError(t, ctx.Err())
		pass(1)
		requireSilent(ctx, t, timer, limit+1, limit)
		requireSilent(guarded, t, timer, limit+1, limit)
		timer.Alive()
		pass(limit + 1)
		require.Equal(t, 1, calls)
		timer.Close()
		requireSilent(guarded, t, timer, limit+1, limit)
	})
	bubble(t, "nothing else does: not Close, and not the parent's end", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		calls := 0
		count := func(error) { calls++ }
		_, timer, err := idle.New(ctx, idle.Config{Limit: limit, Cancel: count})
		require.NoError(t, err)
		timer.Close()
		_, timer, err = idle.New(ctx, idle.Config{Limit: limit, Cancel: count})
		require.NoError(t, err)
		defer timer.Close()
		cancel(errors.New("gone"))
		pass(2 * limit)
		require.Zero(t, calls)
		_, stopped := timer.Stopped()
		require.False(t, stopped)
	})
	t.Run("one that waits for the work, panics or ends its goroutine holds nothing up", func(t *testing.T) {
		for name, cancel := range map[string]func(work context.Context){
			"":         func(work context.Context) { <-work.Done() },
			"panicked": func(context.Context) { panic("secret") },
			"ended":    func(context.Context) { runtime.Goexit() },
		} {
			synctest.Test(t, func(t *testing.T) {
				log := captureLog(t)
				made := make(chan context.Context, 1)
				work, timer := newTimer(t, idle.Config{Limit: limit, Cancel: func(error) { cancel(<-made) }})
				made <- work
				pass(limit + 1)
				requireSilent(work, t, timer, limit+1, limit)
				require.Contains(t, log.String(), name)
				require.NotContains(t, log.String(), "secret")
			})
		}
	})
	t.Run("beside Notify it is an error that says what to do", func(t *testing.T) {
		ctx, timer, err := idle.New(t.Context(), idle.Config{
			Limit: limit, Cancel: func(error) {}, Notify: func(*watchdog.Stop) {},
		})
		require.ErrorIs(t, err, watchdog.ErrInvalid)
		require.ErrorContains(t, err, "leave one of them out")
		require.Nil(t, timer)
		require.Equal(t, t.Context(), ctx)
	})
}

func TestWiden(t *testing.T) {
	t.Run("0 or less and NoLimit end nothing while they are open", func(t *testing.T) {
		for _, none := range []time.Duration{0, -1, watchdog.NoLimit} {
			synctest.Test(t, func(t *testing.T) {
				ctx, timer := within(t.Context(), t, limit)
				narrow := timer.Widen(none)
				pass(1000 * time.Hour)
				narrow()
				pass(limit)
				requireAlive(ctx, t, timer)
				pass(1)
				requireSilent(ctx, t, timer, limit+1, limit)
			})
		}
	})
	bubble(t, "closing one twice counts once, and is no sign of life again", func(t *testing.T) {
		ctx, timer := within(t.Context(), t, limit)
		narrow := timer.Widen(2 * limit)
		narrow()
		pass(limit)
		narrow()
		pass(1)
		requireSilent(ctx, t, timer, limit+1, limit)
	})
}

var ids = []string{"one", "two", "three"}

// TestModel compares random signs and stretches with the rule as it reads.
func TestModel(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			ctx, timer := within(t.Context(), t, limit)
			m := model{last: time.Now(), open: map[any]time.Duration{}}
			narrow := map[int]func(){}
			for step := 0; ctx.Err() == nil; step++ {
				require.False(t, m.exceeded(), "seed %d, step %d", seed, step)
				length, id := time.Duration(random.Int64N(int64(3*limit)))+1, ids[random.IntN(len(ids))]
				how := []idle.Widening{idle.AtLeast}[:random.IntN(2)]
				switch random.IntN(6) {
				case 0:
					timer.Alive()
					m.last = time.Now()
				case 1:
					narrow[step] = timer.Widen(length, how...)
					m.begin(step, length, how)
				case 2:
					timer.Begin(id, length, how...)
					m.begin(id, length, how)
				case 3:
					timer.End(id)
					m.end(id)
				default:
					for i, one := range narrow {
						one()
						delete(narrow, i)
						m.end(i)
						break
					}
				}
				pass(time.Duration(random.Int64N(int64(limit + limit/4))))
			}
			require.True(t, m.exceeded(), "seed %d", seed)
		})
	}
}

// A model is what a timer knows, and its rule in one line.
type model struct {
	last time.Time
	open map[any]time.Duration
}

func (m *model) begin(key any, length time.Duration, how []idle.Widening) {
	if len(how) > 0 {
		length = max(length, limit)
	}
	m.open[key], m.last = length, time.Now()
}

func (m *model) end(key any) {
	if _, open := m.open[key]; open {
		delete(m.open, key)
		m.last = time.Now()
	}
}

func (m *model) exceeded() bool {
	longest := limit
	if len(m.open) > 0 {
		longest = slices.Max(slices.Collect(maps.Values(m.open)))
	}
	return time.Since(m.last) > longest
}

// TestRace ends a context by its silence, its parent and Close at one instant, and checks that all readers see one end.
func TestRace(t *testing.T) {
	for range 500 {
		synctest.Test(t, func(t *testing.T) {
			parent, cancel := context.WithTimeout(t.Context(), limit+1)
			defer cancel()
			ctx, timer := idle.WithLimit(parent, limit)
			var racing sync.WaitGroup
			racing.Go(func() { time.Sleep(limit); timer.Alive() })
			racing.Go(func() {
				<-ctx.Done()
				stop, stopped := timer.Stopped()
				var cause *watchdog.Stop
				assert.Equal(t, errors.As(context.Cause(ctx), &cause), stopped)
				assert.Same(t, cause, stop)
			})
			for range 2 {
				racing.Go(func() { time.Sleep(limit + 1); timer.Widen(limit)() })
			}
			racing.Go(func() { time.Sleep(limit + 1); timer.Close() })
			racing.Wait()
		})
	}
}

// TestRaceCancel has silence and the host end a context at one instant, which existed before its timer, and checks that
// Cancel is called where the silence did, and nowhere else.
func TestRaceCancel(t *testing.T) {
	for range 500 {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			var called atomic.Int64
			_, timer, err := idle.New(ctx, idle.Config{
				Limit: limit, Cancel: func(cause error) { called.Add(1); cancel(cause) },
			})
			assert.NoError(t, err)
			defer timer.Close()
			var racing sync.WaitGroup
			racing.Go(func() { time.Sleep(limit + 1); cancel(nil) })
			racing.Go(func() { time.Sleep(limit + 1); timer.Widen(limit)() })
			racing.Wait()
			pass(3 * limit)
			_, stopped := timer.Stopped()
			want := map[bool]int64{true: 1}[stopped]
			assert.Equal(t, want, called.Load())
		})
	}
}

// TestRaceBegin has many goroutines begin and end calls of the same IDs, and checks that none is left open.
func TestRaceBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, timer := within(t.Context(), t, limit)
		var racing sync.WaitGroup
		for i := range 16 {
			racing.Go(func() {
				for n := range 1000 {
					id := ids[(i+n)%len(ids)]
					timer.Begin(id, time.Duration(n%3)*limit, idle.AtLeast)
					timer.Alive()
					timer.End(id)
				}
			})
		}
		racing.Wait()
		for _, id := range ids {
			timer.End(id)
		}
		pass(limit)
		requireAlive(ctx, t, timer)
		pass(time.Millisecond)
		requireSilent(ctx, t, timer, limit+1, limit)
	})
}
