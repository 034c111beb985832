package watchdoghttp_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdoghttp"
)

// loopback runs the test against a real server: plain HTTP/1.1, and HTTP/2 over TLS. Its time is real, so that what it
// expects of it has wide bounds.
func loopback(t *testing.T, handler http.HandlerFunc, silence time.Duration, test func(t *testing.T, client *http.Client, url string)) {
	t.Helper()
	for _, two := range []bool{false, true} {
		name := map[bool]string{false: "over HTTP/1.1", true: "over HTTP/2 and TLS"}[two]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewUnstartedServer(handler)
			server.EnableHTTP2 = two
			if two {
				server.StartTLS()
			} else {
				server.Start()
			}
			t.Cleanup(server.Close)
			client := server.Client()
			client.Transport = &watchdoghttp.Transport{Base: client.Transport, Idle: silence}
			t.Cleanup(client.CloseIdleConnections)
			test(t, client, server.URL)
		})
	}
}

func get(t *testing.T, client *http.Client, url string) (page, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	return fetch(t, client.Do, req)
}

func TestLoopback(t *testing.T) {
	t.Run("a server that trickles is heard to its end", func(t *testing.T) {
		loopback(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Protocol", r.Proto)
			for range 20 {
				time.Sleep(5 * time.Millisecond)
				say(w, "data: token\n\n")
			}
		}, 30*time.Second, func(t *testing.T, client *http.Client, url string) {
			resp, err := get(t, client, url)
			require.NoError(t, err)
			all, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, strings.Repeat("data: token\n\n", 20), string(all))
			require.Equal(t, resp.Proto, resp.Header.Get("Protocol"))
			require.Equal(t, strings.HasPrefix(url, "https"), resp.ProtoMajor == 2)
		})
	})
	t.Run("a server that stalls is told to go", func(t *testing.T) {
		gone := make(chan struct{}, 2)
		loopback(t, func(w http.ResponseWriter, r *http.Request) {
			stall(w, r)
			gone <- struct{}{}
		}, 2*time.Second, func(t *testing.T, client *http.Client, url string) {
			resp, err := get(t, client, url)
			require.NoError(t, err, "dialling and the header take less than the limit also on a busy machine")
			_, err = io.ReadAll(resp.Body)
			require.True(t, silenceOf(t, err).Answered)
			require.Equal(t, strings.SplitN(url, "/", 3)[2], silenceOf(t, err).Host)
			<-gone
		})
	})
	t.Run("a server that never answers is told to go", func(t *testing.T) {
		var gone atomic.Int32
		loopback(t, func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			gone.Add(1)
		}, 50*time.Millisecond, func(t *testing.T, client *http.Client, url string) {
			before := gone.Load()
			for gone.Load() == before { // on a busy machine dialling alone can take the limit
				_, err := get(t, client, url)
				require.False(t, silenceOf(t, err).Answered)
				time.Sleep(10 * time.Millisecond)
			}
		})
	})
	t.Run("a body closed while it is read lets both sides go", func(t *testing.T) {
		gone := make(chan struct{}, 2)
		loopback(t, func(w http.ResponseWriter, r *http.Request) {
			stall(w, r)
			gone <- struct{}{}
		}, 30*time.Second, func(t *testing.T, client *http.Client, url string) {
			resp, err := get(t, client, url)
			require.NoError(t, err)
			hear(t, resp.Body)
			go resp.Body.Close()
			_, err = resp.Body.Read(make([]byte, 1))
			require.Error(t, err)
			require.NotErrorIs(t, err, watchdoghttp.ErrSilent)
			<-gone
		})
	})
	t.Run("a run that ends, ends its streams", func(t *testing.T) {
		loopback(t, stall, 30*time.Second, func(t *testing.T, client *http.Client, url string) {
			wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
				Store: &watchdog.Memory{}, Logger: quiet,
			})
			require.NoError(t, err)
			defer wd.Close()
			req, err := http.NewRequestWithContext(wd.Context(), http.MethodGet, url, nil)
			require.NoError(t, err)
			resp, err := client.Do(req)
			require.NoError(t, err)
			defer resp.Body.Close()
			require.NoError(t, wd.Interrupt("SIGINT"))
			_, err = io.ReadAll(resp.Body)
			require.Error(t, err)
			require.NotErrorIs(t, err, watchdoghttp.ErrSilent)
		})
	})
}
