package bound_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
	"github.com/seed62658d38/watchdog/internal/locked"
)

func TestKey(t *testing.T) {
	bubble(t, "is refused to a second call while one is in flight, by name", func(t *testing.T) {
		call, _, _ := keyed()
		began := time.Now()
		bound.Do(t.Context(), call, func(ctx context.Context) (string, error) {
			time.Sleep(time.Second)
			out := bound.Do(ctx, call, func(context.Context) (string, error) { panic("begun") })
			var inUse *bound.KeyInUse
			require.ErrorAs(t, out.Err, &inUse)
			require.Equal(t, &bound.KeyInUse{Key: "tick", Since: began}, inUse)
			require.ErrorIs(t, out.Err, bound.ErrKeyInUse)
			require.ErrorContains(t, out.Err, `a call "tick" is in flight since 2000-01-01T00:00:00Z`)
			require.Equal(t, bound.LayerNone, out.Layer)
			return "", nil
		})
	})
	t.Run("is no one else's: other keys, other Calls and calls without a key are not refused", func(t *testing.T) {
		call, _, _ := keyed()
		other, elsewhere, none := call, call, call
		other.Key, elsewhere.Calls, none.Key = "tock", &bound.Calls{}, ""
		bound.Do(t.Context(), call, func(ctx context.Context) (string, error) {
			for _, c := range []bound.Call{other, elsewhere, none} {
				require.NoError(t, bound.Do(ctx, c, ignoring(0, nil)).Err)
			}
			return "", nil
		})
	})
	bubble(t, "is free again after a return, an overrun, a panic and an exit", func(t *testing.T) {
		call, _, _ := keyed()
		for _, work := range []func(context.Context) (string, error){
			ignoring(0, nil), ignoring(0, errTick), obeying,
			panicking(0),
			func(context.Context) (string, error) { runtime.Goexit(); return "", nil },
		} {
			func() {
				defer func() { _ = recover() }()
				bound.Do(t.Context(), call, work)
			}()
			require.NoError(t, bound.Do(t.Context(), call, ignoring(0, nil)).Err)
		}
	})
	bubble(t, "stays a newer call's when an abandoned one ends", func(t *testing.T) {
		call, calls, _ := keyed()
		bound.Do(t.Context(), call, ignoring(80*time.Second, nil))
		bound.Do(t.Context(), call, func(ctx context.Context) (string, error) {
			time.Sleep(30 * time.Second)
			require.Empty(t, calls.Abandoned(), "the first one has ended")
			require.ErrorIs(t, bound.Do(ctx, call, ignoring(0, nil)).Err, bound.ErrKeyInUse)
			return "", nil
		})
	})
	bubble(t, "is one call's when many want it at once", func(t *testing.T) {
		call, _, _ := keyed()
		errs := make(chan error, 64)
		for range cap(errs) {
			go func() { errs <- bound.Do(t.Context(), call, ignoring(time.Second, nil)).Err }()
		}
		refused := 0
		for range cap(errs) {
			if errors.Is(<-errs, bound.ErrKeyInUse) {
				refused++
			}
		}
		require.Equal(t, cap(errs)-1, refused)
	})
}

func TestPanic(t *testing.T) {
	// panicOf returns what the call panics with, on the goroutine of its caller.
	panicOf := func(ctx context.Context, call bound.Call, work func(context.Context) (string, error)) (p *bound.CallPanic) {
		defer func() { p, _ = recover().(*bound.CallPanic) }()
		bound.Do(ctx, call, work)
		return nil
	}
	t.Run("reaches the caller as a panic, with its value and its stack", func(t *testing.T) {
		p := panicOf(t.Context(), tick, panicking(0))
		require.Equal(t, canaryPanic, p.Value)
		require.Contains(t, string(p.Stack), "panicking")
		require.NoError(t, p.Unwrap())
		require.Contains(t, p.Error(), canaryPanic)
		require.Contains(t, p.Error(), string(p.Stack))
	})
	t.Run("can be looked for as the error that it is", func(t *testing.T) {
		p := panicOf(t.Context(), tick, func(context.Context) (string, error) { panic(errTick) })
		require.ErrorIs(t, p, errTick)
		p = panicOf(t.Context(), tick, func(context.Context) (string, error) {
			var none []string
			return none[len(none)], nil
		})
		var bug runtime.Error
		require.ErrorAs(t, p, &bug)
	})
	t.Run("may be nil", func(t *testing.T) {
		p := panicOf(t.Context(), tick, func(context.Context) (string, error) { panic(nil) })
		var bug *runtime.PanicNilError
		require.ErrorAs(t, p, &bug)
	})
	bubble(t, "is an error where the call only ends its goroutine", func(t *testing.T) {
		exits := func(ctx context.Context) (string, error) { runtime.Goexit(); return "", nil }
		out := bound.Do(t.Context(), tick, exits)
		require.Equal(t, bound.ErrExited, out.Err)
		require.Equal(t, bound.ErrExited, out.ResultErr)
		require.Equal(t, bound.LayerNone, out.Layer)
		out = bound.Do(t.Context(), tick, func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return exits(ctx)
		})
		require.ErrorIs(t, out.Err, bound.ErrExited)
		require.Equal(t, bound.LayerSoft, out.Layer)
	})
}

// canaryPanic is what calls panic with: it must be in no log.
const canaryPanic = "canary-77aa"

// panicking is work that panics after a time, whatever happens to its context.
func panicking(d time.Duration) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		time.Sleep(d)
		panic(canaryPanic)
	}
}

func logTo(log io.Writer) *slog.Logger { return slog.New(slog.NewJSONHandler(log, nil)) }

// keyed is a call under a key, with a log that can be read.
func keyed() (bound.Call, *bound.Calls, *locked.Buffer) {
	calls, log := &bound.Calls{}, &locked.Buffer{}
	call := tick
	call.Key, call.Calls, call.Logger = "tick", calls, logTo(log)
	return call, calls, log
}

func TestAbandoned(t *testing.T) {
	bubble(t, "are counted and listed until they end", func(t *testing.T) {
		call, calls, log := keyed()
		start := time.Now()
		bound.Do(t.Context(), call, ignoring(time.Hour, nil))
		entry := bound.AbandonedCall{Key: "tick", StartedAt: start, AbandonedAt: start.Add(70*time.Second + 2)}
		require.Equal(t, []bound.AbandonedCall{entry}, calls.Abandoned())
		require.Equal(t, bound.Counts{Abandoned: 1}, calls.Counts())
		require.Empty(t, log.String(), "the caller knows")
		time.Sleep(time.Hour)
		require.Empty(t, calls.Abandoned())
		require.Equal(t, []bound.LateEnd{{AbandonedCall: entry, EndedAt: start.Add(time.Hour)}}, calls.LateEnds())
		require.Equal(t, bound.Counts{Abandoned: 1, Ended: 1}, calls.Counts())
		require.Contains(t, log.String(), `"msg":"abandoned call ended","key":"tick"`)
	})
	bubble(t, "are listed in the order in which they were abandoned, without a key too", func(t *testing.T) {
		call, calls, _ := keyed()
		for _, key := range []string{"b", "", "a"} {
			call.Key = key
			bound.Do(t.Context(), call, ignoring(time.Hour, nil))
		}
		listed := calls.Abandoned()
		require.Len(t, listed, 3)
		require.Equal(t, []string{"b", "", "a"}, []string{listed[0].Key, listed[1].Key, listed[2].Key})
		time.Sleep(2 * time.Hour)
		require.Len(t, calls.LateEnds(), 3)
	})
	bubble(t, "leave no result to the next call", func(t *testing.T) {
		call, _, _ := keyed()
		late := bound.Do(t.Context(), call, ignoring(80*time.Second, nil))
		next := bound.Do(t.Context(), call, func(context.Context) (string, error) {
			time.Sleep(30 * time.Second) // the first call ends meanwhile
			return "mine", nil
		})
		require.Equal(t, "mine", next.Result)
		require.Empty(t, late.Result)
	})
	bubble(t, "leave nothing but their own goroutine", func(t *testing.T) {
		bound.Do(t.Context(), tick, ignoring(time.Hour, nil))
		synctest.Wait()
		require.Equal(t, 1, ownGoroutines())
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Zero(t, ownGoroutines())
	})
	bubble(t, "are remembered at their last 32 ends", func(t *testing.T) {
		call, calls, _ := keyed()
		for i := range 40 {
			call.Key = fmt.Sprint(i)
			bound.Do(t.Context(), call, ignoring(71*time.Second, nil))
		}
		time.Sleep(time.Minute)
		ends := calls.LateEnds()
		require.Len(t, ends, 32)
		require.Equal(t, "39", ends[31].Key)
		require.Equal(t, uint64(40), calls.Counts().Ended)
	})
}

// ownGoroutines counts the goroutines that the library began. (How many the process has, other tests change at any
// moment.)
func ownGoroutines() int {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return bytes.Count(stacks, []byte("\ncreated by github.com/seed62658d38/watchdog/bound."))
}

func TestLatePanic(t *testing.T) {
	bubble(t, "harms nobody, and is counted, listed and logged without what it says", func(t *testing.T) {
		call, calls, log := keyed()
		out := bound.Do(t.Context(), call, panicking(time.Hour))
		require.True(t, out.Abandoned)
		time.Sleep(time.Hour)
		require.Equal(t, bound.Counts{Abandoned: 1, Ended: 1, Panicked: 1}, calls.Counts())
		end := calls.LateEnds()[0]
		require.Equal(t, canaryPanic, end.Panic.Value)
		require.Contains(t, string(end.Panic.Stack), "panicking")
		require.Contains(t, log.String(), `"level":"ERROR","msg":"abandoned call panicked","key":"tick"`)
		require.Contains(t, log.String(), `"panic_type":"string"`)
		require.NotContains(t, log.String(), canaryPanic)
	})
	bubble(t, "is logged where there are no Calls", func(t *testing.T) {
		call, _, log := keyed()
		call.Key, call.Calls = "", nil
		bound.Do(t.Context(), call, panicking(time.Hour))
		time.Sleep(time.Hour)
		require.Contains(t, log.String(), "abandoned call panicked")
	})
	bubble(t, "is logged with the run where there is one, by its logger", func(t *testing.T) {
		log := &locked.Buffer{}
		wd := watched(t, watchdog.Config{Logger: logTo(log)})
		bound.Do(wd.Context(), bound.Call{Limit: time.Second, Grace: time.Second}, panicking(time.Hour))
		time.Sleep(time.Hour)
		require.Contains(t, log.String(), `"run":"s-1"`)
	})
	bubble(t, "ends no process, nor does a log that panics, too", func(t *testing.T) {
		call, calls, _ := keyed()
		call.Logger = slog.New(hostileLog{slog.DiscardHandler, func() { panic("log") }})
		for _, late := range []any{nil, canaryPanic} {
			bound.Do(t.Context(), call, func(context.Context) (string, error) {
				if time.Sleep(time.Hour); late != nil {
					panic(late)
				}
				return "", nil
			})
		}
		time.Sleep(time.Hour)
		require.Equal(t, bound.Counts{Abandoned: 2, Ended: 2, Panicked: 1}, calls.Counts())
	})
	bubble(t, "may be an exit of its goroutine", func(t *testing.T) {
		call, calls, _ := keyed()
		bound.Do(t.Context(), call, func(context.Context) (string, error) {
			time.Sleep(time.Hour)
			runtime.Goexit()
			return "", nil
		})
		time.Sleep(time.Hour)
		require.Equal(t, bound.Counts{Abandoned: 1, Ended: 1}, calls.Counts())
	})
}

func TestRelease(t *testing.T) {
	bubble(t, "does not run for a call that returns, panics or is refused", func(t *testing.T) {
		call, _, _ := keyed()
		call.Release = func() { t.Error("released") }
		bound.Do(t.Context(), call, ignoring(0, nil))
		bound.Do(t.Context(), call, ignoring(65*time.Second, nil))
		bound.Do(t.Context(), call, func(context.Context) (string, error) {
			require.Error(t, bound.Do(t.Context(), call, obeying).Err)
			return "", nil
		})
		require.Panics(t, func() {
			bound.Do(t.Context(), call, panicking(0))
		})
	})
	bubble(t, "may panic: it is logged, and the caller has its answer", func(t *testing.T) {
		call, calls, log := keyed()
		call.Release = func() { panic(canaryPanic) }
		out := bound.Do(t.Context(), call, ignoring(time.Hour, nil))
		require.Equal(t, bound.LayerHard, out.Layer)
		require.Contains(t, log.String(), "release hook of an abandoned call panicked")
		require.NotContains(t, log.String(), canaryPanic)
		require.NoError(t, bound.Do(t.Context(), call, ignoring(0, nil)).Err, "the key is free")
		require.Len(t, calls.Abandoned(), 1)
		time.Sleep(time.Hour)
	})
	bubble(t, "may hang: the caller has its answer another grace later", func(t *testing.T) {
		call, _, log := keyed()
		call.Release = func() { time.Sleep(time.Hour) }
		start := time.Now()
		out := bound.Do(t.Context(), call, ignoring(time.Hour, nil))
		require.Equal(t, 80*time.Second+2, time.Since(start))
		require.Equal(t, 70*time.Second+2, out.Elapsed)
		require.Equal(t, 1, strings.Count(log.String(), "has not returned"))
		time.Sleep(2 * time.Hour)
	})
	for name, log := range map[string]func(){
		"blocks": func() { time.Sleep(3 * time.Hour) }, "panics": func() { panic("log") },
	} {
		bubble(t, "may hang with a log that "+name+": the caller has its answer two graces later", func(t *testing.T) {
			call, start := tick, time.Now()
			call.Release = func() { time.Sleep(time.Hour) }
			call.Logger = slog.New(hostileLog{slog.DiscardHandler, log})
			bound.Do(t.Context(), call, ignoring(time.Hour, nil))
			require.LessOrEqual(t, time.Since(start), 90*time.Second+2)
			time.Sleep(5 * time.Hour)
		})
	}
	bubble(t, "has given back what the call held by the time its key is free", func(t *testing.T) {
		call, _, _ := keyed()
		call.Release = func() {
			next := call
			next.Release = nil
			require.ErrorIs(t, bound.Do(t.Context(), next, ignoring(0, nil)).Err, bound.ErrKeyInUse)
		}
		bound.Do(t.Context(), call, ignoring(time.Hour, nil))
		time.Sleep(time.Hour)
	})
}

// A hostileLog makes a call for each record.
type hostileLog struct {
	slog.Handler
	call func()
}

func (l hostileLog) Enabled(context.Context, slog.Level) bool { return true }

func (l hostileLog) Handle(context.Context, slog.Record) error {
	l.call()
	return nil
}

// The limits of a raced call. A grace of one nanosecond lets the soft and the hard limit race.
const (
	raceLimit = 10 * time.Nanosecond
	never     = time.Hour
)

// A collision is when what can end a call happens, give or take a nanosecond. What is never to happen is put off to
// after the end.
type collision struct {
	finish, panics, outside, grace time.Duration
}

// collisions has a pair for every name: two things that happen at the same time. (A call that finishes does not panic.)
var collisions = map[string]collision{
	"finish against the soft limit":          {finish: raceLimit, panics: never, outside: never, grace: 100},
	"finish against the hard limit":          {finish: raceLimit + 5, panics: never, outside: never, grace: 5},
	"finish against an outside cancel":       {finish: 5, panics: never, outside: 5, grace: 100},
	"finish against the grace of an outside": {finish: 10, panics: never, outside: 5, grace: 5},
	"panic against the soft limit":           {finish: never, panics: raceLimit, outside: never, grace: 100},
	"panic against the hard limit":           {finish: never, panics: raceLimit + 5, outside: never, grace: 5},
	"panic against an outside cancel":        {finish: never, panics: 5, outside: 5, grace: 100},
	"soft against the hard limit":            {finish: raceLimit, panics: never, outside: never, grace: 1},
	"soft limit against an outside cancel":   {finish: raceLimit + 50, panics: never, outside: raceLimit, grace: 100},
	"hard limit against an outside cancel":   {finish: never, panics: never, outside: raceLimit + 5, grace: 5},
	"all at once":                            {finish: raceLimit, panics: raceLimit, outside: raceLimit, grace: 1},
}

func TestOneEnd(t *testing.T) {
	for name, c := range collisions {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(200) {
				synctest.Test(t, func(t *testing.T) { collide(t, seed, c) })
			}
		})
	}
}

// A crash is what a collision left.
type crash struct {
	out      bound.Outcome[string]
	caught   any // what the caller recovered
	context  context.Context
	calls    *bound.Calls
	released int
}

func collide(t *testing.T, seed uint64, c collision) {
	rng := rand.New(rand.NewPCG(seed, 5))
	about := func(d time.Duration) time.Duration { return d + time.Duration(rng.IntN(4)) }
	call, calls, _ := keyed()
	left := &crash{calls: calls}
	call.Limit, call.Grace, call.Release = raceLimit, c.grace, func() { left.released++ }
	ends := min(about(c.finish), about(c.panics))
	panics := ends >= c.panics
	begun := make(chan context.Context, 1)
	func() {
		defer func() { left.caught = recover() }()
		left.out = bound.Do(cutAfter(t, about(c.outside)), call, func(ctx context.Context) (string, error) {
			begun <- ctx
			time.Sleep(ends)
			if panics {
				panic(canaryPanic)
			}
			return "done", nil
		})
	}()
	left.context = <-begun
	decided := context.Cause(left.context)
	require.NoError(t, bound.Do(t.Context(), bound.Call{Key: call.Key, Calls: calls}, ignoring(0, nil)).Err,
		"the key is free")
	time.Sleep(2 * never)
	require.Equal(t, decided, context.Cause(left.context), "the cause changed")
	left.check(t, panics)
}

// check finds what does not fit together. It looks after the call has ended, however late.
func (l *crash) check(t *testing.T, panics bool) {
	t.Helper()
	counts, ended := l.calls.Counts(), uint64(0)
	if l.out.Abandoned {
		ended = 1
	}
	require.Equal(t, ended, counts.Abandoned)
	require.Equal(t, ended, counts.Ended)
	require.Equal(t, int(ended), l.released)
	require.Empty(t, l.calls.Abandoned())
	if panics {
		require.Equal(t, l.caught == nil, counts.Panicked == 1, "a panic is the caller's or late, and not both")
		require.Equal(t, l.caught == nil, l.out.Abandoned)
		return
	}
	require.Nil(t, l.caught)
	l.checkOutcome(t)
}

func (l *crash) checkOutcome(t *testing.T) {
	t.Helper()
	cause := context.Cause(l.context)
	var overrun *bound.Overrun
	require.Equal(t, l.out.Overran(), errors.As(cause, &overrun), "the outcome and the context disagree: %v", cause)
	require.Equal(t, l.out.Overran(), errors.As(l.out.Err, &overrun))
	require.Equal(t, l.out.Overran(), errors.Is(l.context.Err(), context.DeadlineExceeded))
	require.Equal(t, l.out.Layer == bound.LayerOutside, errors.Is(cause, errHostGone))
	require.Equal(t, l.out.Layer == bound.LayerOutside, errors.Is(l.out.Err, errHostGone))
	require.Equal(t, l.out.Layer == bound.LayerNone, l.out.Err == nil)
	require.Equal(t, l.out.Abandoned, l.out.Result == "")
	if l.out.Layer == bound.LayerHard {
		require.True(t, l.out.Abandoned)
	}
	if l.out.Overran() {
		require.Greater(t, l.out.Elapsed, l.out.Limit)
	}
}
