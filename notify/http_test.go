package notify_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/notify"
)

// serve begins a server that verifies what it gets.
func serve(t *testing.T, start func(*httptest.Server), handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.EnableHTTP2 = true
	start(server)
	t.Cleanup(server.Close)
	return server
}

func TestServer(t *testing.T) {
	var posts atomic.Int64
	take := func(w http.ResponseWriter, r *http.Request) {
		posts.Add(1)
		body, _ := io.ReadAll(r.Body)
		switch _, err := notify.Verify(r.Header, body, secret); {
		case err != nil || r.Method != http.MethodPost || r.URL.RequestURI() != "/canary?q=1":
			w.WriteHeader(http.StatusBadRequest)
		default:
			_, _ = w.Write([]byte(strings.Repeat("thanks", 10_000)))
		}
	}
	for name, start := range map[string]func(*httptest.Server){
		"with TLS": (*httptest.Server).StartTLS, "on this machine, by the transport of its own": (*httptest.Server).Start,
	} {
		t.Run("a server "+name+" gets each stop once", func(t *testing.T) {
			posts.Store(0)
			server := serve(t, start, take)
			b := newBox()
			b.stops(t, 30)
			s := newSender(t, b, nil, func(c *notify.Config) {
				c.URL = server.URL + "/canary?q=1"
				if server.TLS != nil {
					c.Transport = server.Client().Transport
				}
			})
			d, err := s.Deliver(t.Context())
			require.NoError(t, err)
			require.Equal(t, notify.Delivery{Delivered: 30}, d)
			require.EqualValues(t, 30, posts.Load())
		})
	}
	for want, handler := range map[string]http.HandlerFunc{
		"it answered 302 Found: redirects are not followed": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		},
		"it closed the connection and answered nothing": func(w http.ResponseWriter, _ *http.Request) { hijack(w, "") },
		"the connection failed, with a ": func(w http.ResponseWriter, r *http.Request) {
			hijack(w, r.Method+" "+r.URL.Path+" HTTP/1.1\r\n\r\n") // an echo
		},
		"it did not answer within 2s": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		},
	} {
		t.Run(want, func(t *testing.T) {
			posts.Store(0)
			server := serve(t, (*httptest.Server).Start, func(w http.ResponseWriter, r *http.Request) {
				posts.Add(1)
				handler(w, r)
			})
			b := newBox()
			b.stop(t, "r")
			s := newSender(t, b, nil, func(c *notify.Config) {
				c.URL, c.Timeout = server.URL+"/canary", 10*time.Second
				if strings.Contains(want, "within 2s") {
					c.Timeout = 2 * time.Second
				}
			})
			d, err := s.Deliver(t.Context())
			require.ErrorContains(t, err, "webhook at "+strings.TrimPrefix(server.URL, "http://")+": "+want)
			require.NotContains(t, err.Error(), "canary")
			require.Equal(t, notify.Delivery{Delayed: 1}, d)
			require.EqualValues(t, 1, posts.Load())
		})
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	for want, url := range map[string]string{
		"tls: failed to verify certificate": serve(t, (*httptest.Server).StartTLS, take).URL,
		"what is there speaks no TLS":       strings.Replace(serve(t, (*httptest.Server).Start, take).URL, "http:", "https:", 1),
		"connection refused":                "http://" + listener.Addr().String(),
	} {
		t.Run(want, func(t *testing.T) {
			_, err := newSender(t, newBox(), nil, func(c *notify.Config) { c.URL = url + "/canary" }).Test(t.Context())
			require.ErrorContains(t, err, want)
			require.NotContains(t, err.Error(), "canary")
		})
	}
	t.Run("no connection is left open", func(t *testing.T) {
		var open atomic.Int64
		server := serve(t, func(s *httptest.Server) {
			s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				switch state {
				case http.StateNew:
					open.Add(1)
				case http.StateClosed:
					open.Add(-1)
				}
			}
			s.Start()
		}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
		closed := func() bool { return open.Load() == 0 }
		b := newBox()
		b.stops(t, 3)
		s := newSender(t, b, nil, func(c *notify.Config) { c.URL = server.URL })
		_, err := s.Deliver(t.Context())
		require.NoError(t, err)
		require.Eventually(t, closed, 10*time.Second, time.Millisecond)
		_, err = s.Test(t.Context())
		require.NoError(t, err)
		require.Eventually(t, closed, 10*time.Second, time.Millisecond)
		b.stop(t, "again")
		end := run(t, s)
		require.Eventually(t, func() bool { return b.left() == 0 }, 10*time.Second, time.Millisecond)
		end()
		require.Eventually(t, closed, 10*time.Second, time.Millisecond)
	})
	t.Run("a test that is given up", func(t *testing.T) {
		server := serve(t, (*httptest.Server).Start, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		_, err := newSender(t, newBox(), nil, func(c *notify.Config) { c.URL = server.URL + "/canary" }).Test(ctx)
		require.ErrorIs(t, err, context.Canceled)
	})
}

// hijack answers a text, and closes the connection.
func hijack(w http.ResponseWriter, text string) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_, _ = io.WriteString(conn, text)
		_ = conn.Close()
	}
}
