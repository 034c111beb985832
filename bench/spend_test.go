package bench_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdoghttp"
)

// naiveSpend is what hosts write: a mutex with a key and four counters. It checks and adds in one go, and forgets when
// it is killed.
type naiveSpend struct {
	mu                        sync.Mutex
	open                      map[string]bool
	in, out, cost, calls, max int64
}

func (n *naiveSpend) admit(key string, in, out, cost int64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open[key] || n.in+in > n.max || n.out+out > n.max || n.cost+cost > n.max || n.calls >= n.max {
		return false
	}
	n.in, n.out, n.cost, n.calls = n.in+in, n.out+out, n.cost+cost, n.calls+1
	return true
}

// BenchmarkAdmit is an admission and its settling: by hand, in a run of its own, and with layers around it.
func BenchmarkAdmit(b *testing.B) {
	most := watchdog.Amount{
		InputTokens: 100, OutputTokens: 10, Cost: watchdog.Money{Micros: 5, Currency: "EUR"}, Requests: 1,
	}
	limits := watchdog.Spend{
		InputTokens: 1 << 60, OutputTokens: 1 << 60, Requests: 1 << 60,
		Cost: watchdog.Money{Micros: 1 << 60, Currency: "EUR"},
	}
	b.Run("by=hand", func(b *testing.B) {
		n := &naiveSpend{open: map[string]bool{"": false}, max: 1 << 60}
		inParallel(b, func() { n.admit("", 100, 10, 5) })
	})
	for _, layers := range []int{0, 1, 4} {
		b.Run("by=watchdog/layers="+string(rune('0'+layers)), func(b *testing.B) {
			ctx := context.Background()
			wd, err := watchdog.New(ctx, watchdog.Run{}, watchdog.Config{Budget: watchdog.Budget{Spend: limits}})
			check(b, err)
			defer wd.Close()
			for range layers {
				if wd, err = wd.Layer("layer", watchdog.Budget{Spend: limits}); err != nil {
					b.Fatal(err)
				}
				defer wd.Close()
			}
			inParallel(b, func() {
				c, err := wd.Admit(ctx, "", most)
				if err == nil {
					err = c.Settle(most)
				}
				if err != nil {
					b.Error(err)
				}
			})
		})
	}
}

// inParallel measures the call on one goroutine and on as many as there are cores.
func inParallel(b *testing.B, call func()) {
	b.Helper()
	b.Run("goroutines=1", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			call()
		}
	})
	b.Run("goroutines=all", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				call()
			}
		})
	})
}

// The streamed body: 1 GiB, in the chunks that a server flushes; and how much of it is read in one turn.
const (
	streamLength = 1 << 30
	chunkLength  = 4 << 10
	turnLength   = 16 << 20
)

// BenchmarkStream reads bodies of 1 GiB from a server on the loopback interface, which flushes every 4 KiB: without the
// Transport, with it, and with it in a run with an idle limit. It reads the three in turns of 16 MiB, because the
// machine's speed drifts by more than they differ. Run it once: -benchtime=1x -count=6.
func BenchmarkStream(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(serveStream))
	b.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	base := server.Client().Transport
	wd := armIdle(b)
	var took [3]time.Duration
	for b.Loop() {
		streams := []io.ReadCloser{
			open(context.Background(), b, base, server.URL),
			open(context.Background(), b, &watchdoghttp.Transport{Base: base}, server.URL),
			open(wd.Context(), b, &watchdoghttp.Transport{Base: base}, server.URL),
		}
		for turn := range len(streams) * streamLength / turnLength {
			took[turn%len(streams)] += drain(b, streams[turn%len(streams)])
		}
		for _, stream := range streams {
			stream.Close()
		}
	}
	plain := took[0].Seconds()
	b.ReportMetric(float64(b.N)*streamLength/1e6/plain, "MB/s-plain")
	b.ReportMetric(plain/took[1].Seconds(), "x-Transport")
	b.ReportMetric(plain/took[2].Seconds(), "x-Transport,run")
	b.ReportMetric(0, "ns/op")
}

// serveStream sends the body, chunk by chunk.
func serveStream(w http.ResponseWriter, _ *http.Request) {
	chunk, flusher := make([]byte, chunkLength), w.(http.Flusher)
	for range streamLength / chunkLength {
		if _, err := w.Write(chunk); err != nil {
			return
		}
		flusher.Flush()
	}
}

// armIdle attaches a watchdog with an idle limit until the end of the benchmark.
func armIdle(b *testing.B) *watchdog.Watchdog {
	b.Helper()
	wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
		Store: &watchdog.Memory{}, Budget: watchdog.Budget{Idle: time.Hour}, Logger: quiet,
	})
	check(b, err)
	b.Cleanup(func() { wd.Close() })
	return wd
}

// open requests the body.
func open(ctx context.Context, b *testing.B, transport http.RoundTripper, url string) io.ReadCloser {
	b.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	check(b, err)
	resp, err := transport.RoundTrip(req)
	check(b, err)
	return resp.Body
}

// drain reads one turn of a body in chunks and returns how long that took.
func drain(b *testing.B, body io.Reader) time.Duration {
	b.Helper()
	began, chunk := time.Now(), make([]byte, chunkLength)
	for left := turnLength; left > 0; {
		n, err := body.Read(chunk[:min(left, chunkLength)])
		left -= n
		if err != nil && (err != io.EOF || left > 0) {
			b.Fatal(err)
		}
	}
	return time.Since(began)
}
