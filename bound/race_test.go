package bound_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/bound"
)

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
