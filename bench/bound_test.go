package bench_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/eapache/go-resiliency/deadline"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/timeout"

	"github.com/seed62658d38/watchdog/bound"
)

// BenchmarkBound measures an empty call under a limit that it never exceeds: the cost of the guard itself.
func BenchmarkBound(b *testing.B) {
	work := func(context.Context) (int, error) { return 1, nil }
	measure := func(name string, call func() (int, error)) {
		b.Run("with="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if n, err := call(); n != 1 || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
	ctx, tick := context.Background(), bound.Call{Limit: time.Minute}
	measure("watchdog", func() (int, error) {
		out := bound.Do(ctx, tick, work)
		return out.Result, out.Err
	})
	keyed := bound.Call{Key: "tick", Limit: time.Minute, Calls: &bound.Calls{}}
	measure("watchdog,key", func() (int, error) {
		out := bound.Do(ctx, keyed, work)
		return out.Result, out.Err
	})
	measure("hand", func() (int, error) { return boundByHand(ctx, time.Minute, work) })
	measure("hand,timer", func() (int, error) { return timedByHand(ctx, time.Minute, work) })
	policy := failsafe.With(timeout.New[int](time.Minute))
	measure("failsafe", func() (int, error) {
		return policy.WithContext(ctx).GetWithExecution(func(e failsafe.Execution[int]) (int, error) {
			return work(e.Context())
		})
	})
	line := deadline.New(time.Minute)
	measure("eapache", func() (n int, err error) {
		err = line.Run(func(<-chan struct{}) (err error) {
			n, err = work(ctx)
			return err
		})
		return n, err
	})
}

var errTimeout = errors.New("timeout")

// boundByHand is what a host would write: the call on a goroutine, its context under a timeout, and a select. It
// abandons a call, but has no grace, no key and no list of abandoned calls, and a panic ends the process.
func boundByHand(ctx context.Context, limit time.Duration, work func(context.Context) (int, error)) (int, error) {
	type result struct {
		n   int
		err error
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan result, 1)
	go func() {
		n, err := work(ctx)
		done <- result{n, err}
	}()
	select {
	case r := <-done:
		return r.n, r.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// timedByHand is the least that abandons a call: the call does not learn that its time is up.
func timedByHand(ctx context.Context, limit time.Duration, work func(context.Context) (int, error)) (int, error) {
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	go func() {
		n, err := work(ctx)
		done <- result{n, err}
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.n, r.err
	case <-timer.C:
		return 0, errTimeout
	}
}
