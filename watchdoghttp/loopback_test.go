package watchdoghttp_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
	req := request(t.Context(), t, http.MethodGet, url, nil)
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
}
