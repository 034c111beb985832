package modelproxy_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/modelproxy"
	"github.com/seed62658d38/watchdog/watchdoghttp"
)

// BenchmarkFirstByte is how much later the first byte of a stream comes through the proxy: calls by turns with and
// without it, and the difference of their medians. A call is short, or a conversation of 80 KB that grows.
func BenchmarkFirstByte(b *testing.B) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		for _, chunk := range stream(1) {
			_, _ = io.WriteString(w, chunk)
			w.(http.Flusher).Flush()
		}
	}))
	defer upstream.Close()
	short := calls[modelproxy.Anthropic].body
	turn := `{"role":"assistant","content":"` + strings.Repeat("so it is ", 220) + `"},{"role":"user","content":"go on"},`
	for name, body := range map[string]string{
		"short": short, "80KB": strings.Replace(short, `"messages":[`, `"messages":[`+strings.Repeat(turn, 40), 1),
	} {
		b.Run("of="+name, func(b *testing.B) {
			proxy, end := metering(b, upstream.URL)
			defer end()
			client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
			defer client.CloseIdleConnections()
			var took [2][]time.Duration
			for b.Loop() {
				for way, base := range []string{upstream.URL, proxy.URL(modelproxy.Anthropic)} {
					took[way] = append(took[way], firstByte(b, client, base, body))
				}
			}
			direct, through := middle(took[0]), middle(took[1])
			b.ReportMetric(float64(direct.Microseconds()), "direct-us")
			b.ReportMetric(float64((through - direct).Microseconds()), "added-us")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// metering starts the proxy of a run that may use as much as it likes.
func metering(tb testing.TB, to string) (proxy *modelproxy.Proxy, end func()) {
	tb.Helper()
	wd, err := watchdog.New(tb.Context(), watchdog.Run{}, watchdog.Config{
		Budget: watchdog.Budget{Spend: watchdog.Spend{Tokens: 1 << 60}}, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(tb, err)
	proxy, err = modelproxy.Start(wd.Context(), &watchdoghttp.Meter{}, func(string) (string, bool) { return to, true })
	require.NoError(tb, err)
	return proxy, func() {
		require.NoError(tb, proxy.Close())
		require.NoError(tb, wd.Close())
	}
}

// BenchmarkStreams is how much longer a thousand streams at once take through the proxy, each of a hundred events at the
// pace of a model, by turns with and without it: run it with -benchtime=1x -count=3.
func BenchmarkStreams(b *testing.B) {
	const streams, events, pace = 1000, 100, 100 * time.Millisecond
	chunks := stream(1)
	chunks = slices.Concat(chunks[:1], slices.Repeat(chunks[1:2], events), chunks[len(chunks)-2:])
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for _, chunk := range chunks {
			_, _ = io.WriteString(w, chunk)
			w.(http.Flusher).Flush()
			<-tick.C
		}
	}))
	defer upstream.Close()
	proxy, end := metering(b, upstream.URL)
	defer end()
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: streams}}
	defer client.CloseIdleConnections()
	var took [2]time.Duration
	for b.Loop() {
		for way, base := range []string{upstream.URL, proxy.URL(modelproxy.Anthropic)} {
			began := time.Now()
			var all sync.WaitGroup
			for range streams {
				all.Go(func() { firstByte(b, client, base, calls[modelproxy.Anthropic].body) })
			}
			all.Wait()
			took[way] += time.Since(began)
		}
	}
	b.ReportMetric(took[0].Seconds()/float64(b.N), "direct-s")
	b.ReportMetric((took[1].Seconds()/took[0].Seconds()-1)*100, "%slower")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkMemory is what a run with a proxy keeps when its calls have ended.
func BenchmarkMemory(b *testing.B) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		for _, chunk := range stream(10) {
			_, _ = io.WriteString(w, chunk)
		}
	}))
	defer upstream.Close()
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
	one := func() func() {
		proxy, end := metering(b, upstream.URL)
		firstByte(b, client, proxy.URL(modelproxy.Anthropic), calls[modelproxy.Anthropic].body)
		return end
	}
	one()()
	before := heap()
	var ends []func()
	for b.Loop() {
		ends = append(ends, one())
	}
	b.ReportMetric(float64(heap()-before)/1024/float64(b.N), "KiB/run")
	for _, end := range ends {
		end()
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var all runtime.MemStats
	runtime.ReadMemStats(&all)
	return int64(all.HeapAlloc)
}

func firstByte(b *testing.B, client *http.Client, base, body string) time.Duration {
	b.Helper()
	began := time.Now()
	resp, err := client.Post(base+"/v1/messages", "application/json", strings.NewReader(body))
	require.NoError(b, err)
	defer resp.Body.Close()
	_, err = resp.Body.Read(make([]byte, 1))
	require.NoError(b, err)
	took := time.Since(began)
	_, _ = io.Copy(io.Discard, resp.Body)
	return took
}

func middle(all []time.Duration) time.Duration { return slices.Sorted(slices.Values(all))[len(all)/2] }
