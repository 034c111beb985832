package bench_test

import (
	"bytes"
	"context"
	"io"
	"sync"
	"testing"
	"time"

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
