package bench_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/seed62658d38/watchdog"
)

// The streamed body: 1 GiB, in the chunks that a server flushes.
const (
	streamLength = 1 << 30
	chunkLength  = 4 << 10
)

// BenchmarkStream reads one body of 1 GiB from a server on the loopback, which flushes every 4 KiB. It is run a few times:
// -benchtime=1x. The watchdog is that of a run which heeds signs of life.
func BenchmarkStream(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		chunk, flusher := make([]byte, chunkLength), w.(http.Flusher)
		for range streamLength / chunkLength {
			if _, err := w.Write(chunk); err != nil {
				return
			}
			flusher.Flush()
		}
	}))
	b.Cleanup(server.Close)
	plain := server.Client().Transport
	wd := armIdle(b)
	b.Cleanup(func() { wd.Close() })
	for _, with := range []struct {
		name      string
		ctx       context.Context
		transport http.RoundTripper
	}{
		{"nothing", context.Background(), plain},
		{"Transport", context.Background(), &watchdog.Transport{Base: plain}},
		{"Transport,run", wd.Context(), &watchdog.Transport{Base: plain}},
	} {
		b.Run("with="+with.name, func(b *testing.B) {
			b.SetBytes(streamLength)
			b.ReportAllocs()
			for b.Loop() {
				drain(b, with.ctx, with.transport, server.URL)
			}
		})
	}
}

// BenchmarkChunk is one Read of a body whose next chunk is always there: what the Transport itself adds to it.
func BenchmarkChunk(b *testing.B) {
	wd := armIdle(b)
	b.Cleanup(func() { wd.Close() })
	for name, ctx := range map[string]context.Context{"Transport": context.Background(), "Transport,run": wd.Context()} {
		b.Run("with="+name, func(b *testing.B) {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://example.org/", nil)
			if err != nil {
				b.Fatal(err)
			}
			resp, err := (&watchdog.Transport{Base: instant{}}).RoundTrip(req)
			if err != nil {
				b.Fatal(err)
			}
			defer resp.Body.Close()
			chunk := make([]byte, chunkLength)
			b.ReportAllocs()
			for b.Loop() {
				resp.Body.Read(chunk)
			}
		})
	}
}

// armIdle attaches a watchdog that heeds signs of life.
func armIdle(b *testing.B) *watchdog.Watchdog {
	b.Helper()
	wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
		Store: &watchdog.Memory{}, Budget: watchdog.Budget{Idle: time.Hour}, Logger: quiet,
	})
	if err != nil {
		b.Fatal(err)
	}
	return wd
}

// drain reads a body in chunks to its end.
func drain(b *testing.B, ctx context.Context, transport http.RoundTripper, url string) {
	b.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		b.Fatal(err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, resp.Body, make([]byte, chunkLength))
	if n != streamLength || err != nil {
		b.Fatal(n, err)
	}
}

// instant is a base that answers at once, with a body that never ends.
type instant struct{}

func (instant) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: instant{}, Request: req}, nil
}

func (instant) Read(p []byte) (int, error) { return len(p), nil }
func (instant) Close() error               { return nil }
