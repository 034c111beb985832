package notify_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/locked"
	"github.com/seed62658d38/watchdog/notify"
)

// bubble runs a test in fake time.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

func TestDeliver(t *testing.T) {
	bubble(t, "each stop is told once, with the same ID and a signature", func(t *testing.T) {
		b, r := newBox(), &receiver{}
		ids := b.stops(t, 20)
		r.answersAfter(time.Second)
		d := deliver(t, newSender(t, b, r))
		assert.Equal(t, notify.Delivery{Delivered: 20}, d)
		assert.ElementsMatch(t, ids, r.ids())
		for _, g := range r.all() {
			require.NoError(t, g.err)
		}
		assert.Zero(t, b.left())
		assert.Equal(t, notify.DefaultParallel, r.peak)
		assert.Equal(t, 3, b.calls, "the last round was not full")
	})
	bubble(t, "a round that delivers nothing is the last for now", func(t *testing.T) {
		b, r := newBox(), &receiver{}
		b.stops(t, 20)
		r.answersWith(500)
		d, err := newSender(t, b, r).Deliver(t.Context())
		require.Error(t, err)
		assert.Equal(t, notify.Delivery{Delayed: notify.DefaultParallel}, d)
	})
	bubble(t, "completions and layers are told on request only, and removed without it", func(t *testing.T) {
		for _, wanted := range []bool{false, true} {
			b, r := newBox(), &receiver{}
			done := stored(t, "complete")
			done.ID, done.AggregateID = "e0b1c2d3-2565-5c3e-b33b-1add2a8e1405", "s-2"
			complete := b.put(t, done)
			layer := b.put(t, stored(t, "cancel_layer"))
			stop := b.put(t, stored(t, "cancel"))
			d := deliver(t, newSender(t, b, r, func(c *notify.Config) { c.Completes, c.Layers = wanted, wanted }))
			if wanted {
				assert.Equal(t, notify.Delivery{Delivered: 3}, d)
				assert.ElementsMatch(t, []string{complete, layer, stop}, r.ids())
			} else {
				assert.Equal(t, notify.Delivery{Delivered: 1, Unwanted: 2}, d)
				assert.Equal(t, []string{stop}, r.ids())
			}
			assert.Zero(t, b.left())
		}
	})
	bubble(t, "it runs until its context ends, and a stop is told within a poll", func(t *testing.T) {
		b, r := newBox(), &receiver{}
		end := run(t, newSender(t, b, r))
		synctest.Wait()
		b.stop(t, "late")
		put := time.Now()
		time.Sleep(notify.DefaultPoll)
		synctest.Wait()
		require.Len(t, r.all(), 1)
		assert.LessOrEqual(t, r.all()[0].at.Sub(put), notify.DefaultPoll)
		end()
	})
}

// TestOutage has a receiver fail in each way for a day, and then take what is sent.
func TestOutage(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	for name, answer := range map[string]func(*http.Request, string) (*http.Response, error){
		"down":            func(*http.Request, string) (*http.Response, error) { return nil, refused },
		"500":             func(*http.Request, string) (*http.Response, error) { return respond(500), nil },
		"404":             func(*http.Request, string) (*http.Response, error) { return respond(404), nil },
		"hanging":         hang,
		"cut off":         func(*http.Request, string) (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
		"panicking":       func(*http.Request, string) (*http.Response, error) { panic("canary") },
		"a redirect":      func(*http.Request, string) (*http.Response, error) { return respond(307, "Location", "/away"), nil },
		"gone":            func(*http.Request, string) (*http.Response, error) { return respond(410), nil },
		"overloaded":      func(*http.Request, string) (*http.Response, error) { return respond(503, "Retry-After", "120"), nil },
		"a day's respite": func(*http.Request, string) (*http.Response, error) { return respond(429, "Retry-After", "86400"), nil },
	} {
		bubble(t, name+" for 24 hours", func(t *testing.T) {
			b, r, log := newBox(), &receiver{}, &locked.Buffer{}
			ids := b.stops(t, 3)
			r.answers(answer)
			end := run(t, newSender(t, b, r, func(c *notify.Config) {
				c.Logger, c.Poll = logTo(log), time.Minute
			}))
			time.Sleep(24 * time.Hour)
			ids = append(ids, b.stop(t, "during"))
			assert.Empty(t, r.ids())
			tries := len(r.all())
			assert.Greater(t, tries, 3*20, "it is tried about once in an hour")
			first, last := r.all()[0], r.last(r.all()[0].id)
			assert.Equal(t, first.body, last.body)
			assert.NotEqual(t, first.header.Get("Webhook-Timestamp"), last.header.Get("Webhook-Timestamp"))
			assert.NotEqual(t, first.header.Get("Webhook-Signature"), last.header.Get("Webhook-Signature"))
			assert.Less(t, tries, 3*60)
			r.answers(nil)
			time.Sleep(2*time.Hour + 2*time.Minute) // the longest pause, and the rest that the receiver wanted
			end()
			assert.ElementsMatch(t, ids, r.ids())
			for _, id := range ids {
				assert.Equal(t, 1, r.times(id))
			}
			assert.Zero(t, b.left())
			assert.Contains(t, log.String(), "notices could not be delivered")
			assert.Contains(t, log.String(), "notices are delivered again")
			assert.NotContains(t, log.String(), "canary")
		})
	}
}

func TestPauses(t *testing.T) {
	bubble(t, "they double from five seconds to an hour, less up to a fifth", func(t *testing.T) {
		b, r := newBox(), &receiver{}
		b.stop(t, "r")
		r.answersWith(500)
		end := run(t, newSender(t, b, r, func(c *notify.Config) { c.Poll = 2 * time.Second }))
		time.Sleep(6 * time.Hour)
		end()
		want, shorter := 5*time.Second, 0
		for i, g := range r.all()[1:] {
			took := g.at.Sub(r.all()[i].at)
			assert.LessOrEqual(t, took, want+2*time.Second, i)
			assert.GreaterOrEqual(t, took, want*4/5, i)
			if took < want*99/100 {
				shorter++
			}
			want = min(2*want, time.Hour)
		}
		assert.Positive(t, shorter, "not all notices of an outage come back at one instant")
		assert.Equal(t, time.Hour, want)
	})
	for value, least := range map[string]time.Duration{
		"600": 10 * time.Minute, "86400": time.Hour, "99999999999999": 0, "-5": 0, "soon": 0, "0": 0,
		"Fri, 01 Jan 1999 00:00:00 GMT": 0, "Sat, 01 Jan 2000 00:30:00 GMT": 30 * time.Minute,
		"Sun, 01 Jan 2040 00:00:00 GMT": time.Hour,
	} {
		bubble(t, "a Retry-After of "+value, func(t *testing.T) { // it begins at midnight of 2000-01-01
			b, r := newBox(), &receiver{}
			b.stops(t, 10)
			r.answersWith(503, "Retry-After", value)
			end := run(t, newSender(t, b, r, func(c *notify.Config) { c.Poll = 5 * time.Second }))
			time.Sleep(2 * time.Hour)
			end()
			first, next := r.all()[0].at, time.Time{}
			for _, g := range r.all() {
				if g.at.After(first) && next.IsZero() {
					next = g.at
				}
			}
			assert.GreaterOrEqual(t, next.Sub(first), least)
			assert.LessOrEqual(t, next.Sub(first), max(least+5*time.Second, 10*time.Second))
		})
	}
}

// TestRest has a receiver want nothing for a while.
func TestRest(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		header string
		rest   time.Duration
	}{"429": {429, "1200", 20 * time.Minute}, "410": {410, "", time.Hour}} {
		bubble(t, "after a "+name+" this sender sends nothing, and no other the same notice", func(t *testing.T) {
			b, r, other := newBox(), &receiver{}, &receiver{}
			first := b.stop(t, "first")
			r.answersWith(test.status, "Retry-After", test.header)
			end := run(t, newSender(t, b, r))
			time.Sleep(time.Minute)
			r.answersWith(0)
			second := b.stop(t, "second")
			time.Sleep(test.rest - 2*time.Minute)
			assert.Len(t, r.all(), 1)
			deliver(t, newSender(t, b, other))
			assert.Equal(t, []string{second}, other.ids())
			time.Sleep(2 * time.Minute)
			end()
			assert.Equal(t, []string{first}, r.ids())
		})
	}
}

func TestSlow(t *testing.T) {
	bubble(t, "a notice that is slow holds up the others for no longer than a time-out and a poll", func(t *testing.T) {
		b, r := newBox(), &receiver{}
		slow := b.stop(t, "slow")
		ids := b.stops(t, 50)
		r.answers(func(request *http.Request, id string) (*http.Response, error) {
			if id == slow {
				return hang(request, id)
			}
			return nil, nil
		})
		began := time.Now()
		end := run(t, newSender(t, b, r))
		time.Sleep(2 * time.Minute)
		end()
		assert.ElementsMatch(t, ids, r.ids())
		for _, g := range r.all() {
			if g.id != slow && g.at.Sub(began) > notify.DefaultTimeout+notify.DefaultPoll {
				t.Fatalf("%s came after %v", g.id, g.at.Sub(began))
			}
		}
	})
	bubble(t, "an answer whose body does not end is one", func(t *testing.T) {
		b, r := newBox(), &receiver{}
		b.stop(t, "r")
		r.answers(func(request *http.Request, _ string) (*http.Response, error) {
			reader, writer := io.Pipe()
			context.AfterFunc(request.Context(), func() { _ = writer.CloseWithError(request.Context().Err()) })
			return &http.Response{StatusCode: 200, Body: reader}, nil
		})
		d := deliver(t, newSender(t, b, r))
		assert.Equal(t, 1, d.Delivered)
	})
	bubble(t, "of an answer that goes on and on the beginning is enough", func(t *testing.T) {
		b, r := newBox(), &receiver{}
		b.stop(t, "r")
		r.answers(func(*http.Request, string) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: endless{}}, nil
		})
		began := time.Now()
		deliver(t, newSender(t, b, r))
		assert.Equal(t, 4*time.Second, time.Since(began))
	})
	bubble(t, "a send that is under way ends before Run does", func(t *testing.T) {
		b, r := newBox(), &receiver{}
		ids := b.stops(t, 30)
		r.answersAfter(5 * time.Second)
		end := run(t, newSender(t, b, r))
		time.Sleep(time.Second)
		asked := time.Now()
		end()
		assert.Equal(t, 4*time.Second, time.Since(asked))
		assert.Len(t, r.ids(), notify.DefaultParallel)
		assert.Equal(t, len(ids)-notify.DefaultParallel, b.left())
	})
	bubble(t, "a transport that does not heed its context is left behind", func(t *testing.T) {
		b, r := newBox(), &receiver{}
		b.stop(t, "r")
		r.answersAfter(time.Hour)
		began := time.Now()
		_, err := newSender(t, b, r).Deliver(t.Context())
		require.ErrorContains(t, err, "did not answer within 10s")
		assert.LessOrEqual(t, time.Since(began), notify.DefaultTimeout+time.Second)
		time.Sleep(time.Hour)
	})
}

// An endless body has a KiB in each second.
type endless struct{}

func (endless) Read(p []byte) (int, error) { time.Sleep(time.Second); return min(len(p), 1<<10), nil }
func (endless) Close() error               { return nil }

func TestDatabaseDown(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		bubble(t, "nothing is lost, hanging "+strconv.FormatBool(hangs), func(t *testing.T) {
			for _, down := range []string{"claim", "read", "finish", "delay", "all"} {
				b, r, log := newBox(), &receiver{}, &locked.Buffer{}
				ids := b.stops(t, 20)
				if down == "delay" {
					r.answersWith(500)
				}
				b.onCall(func(ctx context.Context, call string) error {
					switch {
					case call != down && down != "all":
						return nil
					case hangs:
						<-ctx.Done()
						return ctx.Err()
					}
					return errDown
				})
				end := run(t, newSender(t, b, r, func(c *notify.Config) { c.Logger = logTo(log) }))
				time.Sleep(time.Hour)
				b.onCall(nil)
				r.answersWith(0)
				time.Sleep(2*time.Hour + time.Minute)
				end()
				assert.ElementsMatch(t, ids, r.ids(), down)
				for _, id := range ids {
					assert.Equal(t, 1, r.times(id), "%s: it remembers what it could not note", down)
				}
				assert.Zero(t, b.left(), down)
				assert.LessOrEqual(t, countOf(log.String(), "could not be delivered"), 2, "once in an hour")
				assert.GreaterOrEqual(t, countOf(log.String(), "could not be delivered"), 1)
			}
		})
	}
}

func TestOtherSecret(t *testing.T) {
	bubble(t, "a receiver with another secret refuses, and gets it when that is corrected", func(t *testing.T) {
		b, r := newBox(), &receiver{}
		id := b.stop(t, "r")
		r.answersWith(http.StatusUnauthorized)
		_, err := newSender(t, b, r, func(c *notify.Config) { c.Secrets = []string{otherSecret} }).Deliver(t.Context())
		require.EqualError(t, err, "notice "+id+
			": webhook at hooks.example.com: it answered 401 Unauthorized: see whether it has the same secret")
		require.ErrorIs(t, r.all()[0].err, notify.ErrUnverified)
		r.answersWith(0)
		time.Sleep(time.Minute)
		deliver(t, newSender(t, b, r, func(c *notify.Config) { c.Secrets = []string{otherSecret, secret} }))
		require.NoError(t, r.all()[1].err, "both sign while the receiver changes")
		assert.Equal(t, id, r.all()[1].id)
	})
}

func TestTest(t *testing.T) {
	bubble(t, "one notice is sent now, past the outbox", func(t *testing.T) {
		b, r := newBox(), &receiver{}
		status, err := newSender(t, b, r).Test(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 204, status)
		require.Len(t, r.all(), 1)
		require.NoError(t, r.all()[0].err)
		assert.Contains(t, r.all()[0].body, `"type":"watchdog.test"`)
		assert.Zero(t, b.calls)
		r.answersWith(404)
		status, err = newSender(t, b, r).Test(t.Context())
		require.ErrorContains(t, err, "see whether the path of the address is right")
		assert.Equal(t, 404, status)
	})
	bubble(t, "no answer", func(t *testing.T) {
		r := &receiver{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		r.answers(hang)
		status, err := newSender(t, newBox(), r).Test(ctx)
		require.ErrorContains(t, err, "did not answer within 10s")
		assert.Zero(t, status)
	})
}

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
			d := deliver(t, s)
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
		deliver(t, s)
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
