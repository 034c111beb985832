package modelproxy_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/modelproxy"
)

// BenchmarkFirstByte is how much later the first byte of a stream comes through the proxy: calls by turns with and
// without it, and the difference of their medians.
func BenchmarkFirstByte(b *testing.B) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		for _, chunk := range stream(1) {
			_, _ = io.WriteString(w, chunk)
			w.(http.Flusher).Flush()
		}
	}))
	defer upstream.Close()
	wd, err := watchdog.New(b.Context(), watchdog.Run{}, watchdog.Config{
		Budget: watchdog.Budget{Spend: watchdog.Spend{Tokens: 1 << 60}}, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(b, err)
	defer wd.Close()
	proxy, err := modelproxy.Start(wd.Context(), modelproxy.Config{
		Lookup: func(string) (string, bool) { return upstream.URL, true },
	})
	require.NoError(b, err)
	defer proxy.Close()
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	defer client.CloseIdleConnections()
	var took [2][]time.Duration
	for b.Loop() {
		for way, base := range []string{upstream.URL, proxy.URL(modelproxy.Anthropic)} {
			took[way] = append(took[way], firstByte(b, client, base))
		}
	}
	direct, through := middle(took[0]), middle(took[1])
	b.ReportMetric(float64(direct.Microseconds()), "direct-us")
	b.ReportMetric(float64((through - direct).Microseconds()), "added-us")
	b.ReportMetric(0, "ns/op")
}

func firstByte(b *testing.B, client *http.Client, base string) time.Duration {
	b.Helper()
	began := time.Now()
	resp, err := client.Post(base+"/v1/messages", "application/json", strings.NewReader(calls[modelproxy.Anthropic].body))
	require.NoError(b, err)
	defer resp.Body.Close()
	_, err = resp.Body.Read(make([]byte, 1))
	require.NoError(b, err)
	took := time.Since(began)
	_, _ = io.Copy(io.Discard, resp.Body)
	return took
}

func middle(all []time.Duration) time.Duration { return slices.Sorted(slices.Values(all))[len(all)/2] }
