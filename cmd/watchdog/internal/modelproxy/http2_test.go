package modelproxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/modelproxy"
	"github.com/seed62658d38/watchdog/watchdoghttp"
)

// TestHTTP2 has an API that speaks HTTP/2, as all of them do.
func TestHTTP2(t *testing.T) {
	f := start(t, watchdog.Spend{Tokens: 10_000_000}, nil)
	upstream := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		assert.Equal(t, 2, req.ProtoMajor)
		w.Header().Set("Content-Type", "text/event-stream")
		for _, chunk := range stream(2) {
			_, _ = io.WriteString(w, chunk)
			w.(http.Flusher).Flush()
		}
	}))
	upstream.EnableHTTP2 = true
	upstream.StartTLS()
	defer upstream.Close()
	proxy, err := modelproxy.Start(f.wd.Context(), &watchdoghttp.Meter{Base: upstream.Client().Transport},
		func(string) (string, bool) { return upstream.URL, true })
	require.NoError(t, err)
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			resp, err := f.client.Post(proxy.URL(modelproxy.Anthropic)+"/v1/messages", "",
				strings.NewReader(calls[modelproxy.Anthropic].body))
			if !assert.NoError(t, err) {
				return
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			assert.NoError(t, err)
			assert.True(t, whole(string(text)))
		})
	}
	all.Wait()
	require.NoError(t, proxy.Close())
	assert.EqualValues(t, 200*15, f.used(0))
}
