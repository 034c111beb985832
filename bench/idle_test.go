package bench_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/eapache/go-resiliency/deadline"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/timeout"

	"github.com/seed62658d38/watchdog/bound"
	"github.com/seed62658d38/watchdog/idle"
)

// BenchmarkIdleMade makes a guard against silence and closes it.
func BenchmarkIdleMade(b *testing.B) {
	parent, cancel := context.WithCancel(b.Context())
	defer cancel()
	b.Run("with=idle", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, timer := idle.WithLimit(parent, time.Hour)
			timer.Close()
		}
	})
	b.Run("with=AfterFunc", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, end := context.WithCancelCause(parent)
			timer := time.AfterFunc(time.Hour, func() { end(context.DeadlineExceeded) })
			timer.Stop()
			end(nil)
		}
	})
}

// BenchmarkIdleAlive gives signs of life, on one goroutine and on all cores.
func BenchmarkIdleAlive(b *testing.B) {
	_, timer := idle.WithLimit(context.Background(), time.Hour)
	defer timer.Close()
	wd := armIdle(b)
	_, inside := idle.WithLimit(wd.Context(), time.Hour)
	defer inside.Close()
	var mu sync.Mutex
	byHand := time.AfterFunc(time.Hour, func() {})
	defer byHand.Stop()
	base := time.Now()
	for _, c := range []struct {
		name string
		sign func()
	}{
		{"with=idle", timer.Alive},
		{"with=idle,inRun", inside.Alive},
		{"with=time.Since", func() { _ = time.Since(base) }},
		{"with=Reset", func() {
			mu.Lock()
			byHand.Reset(time.Hour)
			mu.Unlock()
		}},
	} {
		b.Run(c.name, func(b *testing.B) { inParallel(b, c.sign) })
	}
}

// BenchmarkIdleWrapped makes signs of life of what a host has.
func BenchmarkIdleWrapped(b *testing.B) {
	ctx, timer := idle.WithLimit(context.Background(), time.Hour)
	defer timer.Close()
	chunk, source := make([]byte, 64), endless{}
	reader, body := idle.NewReader(ctx, source, nil), idle.NewBody(ctx, source, nil)
	defer body.Close()
	writer := idle.NewWriter(ctx, io.Discard, nil)
	discard := io.Discard
	messages := make(chan int, 1)
	for _, c := range []struct {
		name string
		call func()
	}{
		{"of=reader/with=idle", func() { _, _ = reader.Read(chunk) }},
		{"of=body/with=idle", func() { _, _ = body.Read(chunk) }},
		{"of=reader/with=nothing", func() { _, _ = source.Read(chunk) }},
		{"of=writer/with=idle", func() { _, _ = writer.Write(chunk) }},
		{"of=writer/with=nothing", func() { _, _ = discard.Write(chunk) }},
		{"of=channel/with=idle", func() {
			messages <- 1
			_, _, _ = idle.Recv(ctx, messages)
		}},
		{"of=channel/with=nothing", func() {
			messages <- 1
			select {
			case <-messages:
			case <-ctx.Done():
			}
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.call()
			}
		})
	}
}

// endless has content without an end.
type endless struct{}

var content = bytes.Repeat([]byte("x"), 64)

// Read implements io.Reader.
func (endless) Read(p []byte) (int, error) { return copy(p, content), nil }

// Close implements io.Closer.
func (endless) Close() error { return nil }

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
