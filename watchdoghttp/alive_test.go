package watchdoghttp_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/idle"
	"github.com/seed62658d38/watchdog/watchdoghttp"
)

const (
	commentPing = ": ping\n\n"
	eventPing   = "event: ping\ndata: {\"type\": \"ping\"}\n\n"
	token       = "data: token\n\n"
)

// filtered returns the answer of a base that has the body, a stream of events, through a transport with the filter.
func filtered(
	ctx context.Context, t *testing.T, transport *watchdoghttp.Transport, body io.ReadCloser,
) page {
	t.Helper()
	transport.Base = based(func(*http.Request) (*http.Response, error) {
		header := http.Header{"Content-Type": {"text/event-stream"}}
		return &http.Response{StatusCode: http.StatusOK, Header: header, Body: body}, nil
	})
	req := request(ctx, t, http.MethodGet, "http://example.org/", nil)
	resp, err := fetch(t, transport.RoundTrip, req)
	require.NoError(t, err)
	return resp
}

// every sends the chunks, each after that time, and then nothing.
func every(t *testing.T, after time.Duration, chunks ...string) io.ReadCloser {
	read, write := io.Pipe()
	var sending sync.WaitGroup
	sending.Go(func() {
		for _, chunk := range chunks {
			time.Sleep(after)
			io.WriteString(write, chunk)
		}
	})
	t.Cleanup(func() {
		read.Close()
		sending.Wait()
	})
	return read
}

func TestAlive(t *testing.T) {
	sse := func() *watchdoghttp.Transport {
		return &watchdoghttp.Transport{Idle: silenceLimit, Alive: watchdoghttp.EventStream}
	}
	t.Run("pings end no wait, and are handed out at once and unchanged", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			resp := filtered(t.Context(), t, sse(), every(t, 25*time.Second, commentPing, eventPing, commentPing))
			for i, ping := range []string{commentPing, eventPing} {
				require.Equal(t, ping, hear(t, resp.Body))
				require.Equal(t, time.Duration(i+1)*25*time.Second, time.Since(began))
			}
			_, err := resp.Body.Read(make([]byte, 64))
			silence := silenceOf(t, err)
			require.True(t, silence.Answered)
			require.Equal(t, silenceLimit+1, silence.Elapsed)
			require.Equal(t, silenceLimit+1, time.Since(began))
		})
	})
	t.Run("pings are no activity of the run, tokens are", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
				Store: &watchdog.Memory{}, Budget: watchdog.Budget{Idle: silenceLimit}, Logger: quiet,
			})
			require.NoError(t, err)
			defer wd.Close()
			transport := &watchdoghttp.Transport{Idle: watchdog.NoLimit, Alive: watchdoghttp.EventStream}
			resp := filtered(wd.Context(), t, transport, every(t, 40*time.Second, token, commentPing, eventPing))
			for _, chunk := range []string{token, commentPing} {
				require.Equal(t, chunk, hear(t, resp.Body))
				require.Nil(t, wd.Stop())
			}
			time.Sleep(19 * time.Second)
			require.Nil(t, wd.Stop())
			time.Sleep(2 * time.Second)
			require.Equal(t, watchdog.IdleExceeded, wd.Stop().Code, "a minute after the token")
		})
	})
	t.Run("without a filter, or where it returns none, every chunk is a sign of life", func(t *testing.T) {
		none := func(*http.Response) func([]byte) bool { return nil }
		for _, alive := range []func(*http.Response) func([]byte) bool{nil, none} {
			synctest.Test(t, func(t *testing.T) {
				began, transport := time.Now(), &watchdoghttp.Transport{Idle: silenceLimit, Alive: alive}
				_, err := io.ReadAll(filtered(t.Context(), t, transport, every(t, 50*time.Second, commentPing, commentPing)).Body)
				silenceOf(t, err)
				require.Equal(t, 100*time.Second+silenceLimit+1, time.Since(began))
			})
		}
	})
	t.Run("what is written to an upgraded connection between reads starts the wait again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			body := struct {
				io.ReadCloser
				io.Writer
			}{every(t, 25*time.Second, commentPing), io.Discard}
			resp := filtered(t.Context(), t, sse(), body)
			require.Equal(t, commentPing, hear(t, resp.Body))
			resp.Body.(io.Writer).Write([]byte("hello"))
			began := time.Now()
			_, err := resp.Body.Read(make([]byte, 64))
			silenceOf(t, err)
			require.Equal(t, silenceLimit+1, time.Since(began))
		})
	})
	t.Run("a slow filter is no silence", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			transport := &watchdoghttp.Transport{Idle: silenceLimit, Alive: func(*http.Response) func([]byte) bool {
				return func([]byte) bool { time.Sleep(silenceLimit); return true }
			}}
			resp := filtered(t.Context(), t, transport, every(t, 25*time.Second, token, token))
			for range 2 {
				require.Equal(t, token, hear(t, resp.Body))
			}
		})
	})
}

func TestAliveModel(t *testing.T) {
	t.Run("the wait since the last sign of life is the sum of the reads", func(t *testing.T) {
		for seed := range uint64(500) {
			synctest.Test(t, func(t *testing.T) { waitAndCompare(t, rand.New(rand.NewPCG(seed, 13))) })
		}
	})
}

// waitAndCompare reads chunks that come at random moments, with time of its own between two reads, and expects the
// silence where the waits since the last sign of life add up to more than the limit.
func waitAndCompare(t *testing.T, rng *rand.Rand) {
	read, write := io.Pipe()
	var sending sync.WaitGroup
	defer sending.Wait()
	transport := &watchdoghttp.Transport{Idle: silenceLimit, Alive: watchdoghttp.EventStream}
	resp := filtered(t.Context(), t, transport, read)
	for waited := time.Duration(0); ; {
		time.Sleep(time.Duration(rng.Int64N(int64(2 * silenceLimit)))) // the reader's
		wait, chunk := []time.Duration{0, time.Second, 20 * time.Second, silenceLimit - 1, silenceLimit}[rng.IntN(5)], token
		if rng.IntN(3) > 0 {
			chunk = commentPing
		}
		sending.Go(func() { time.Sleep(wait); io.WriteString(write, chunk) })
		if waited += wait; waited > silenceLimit {
			began := time.Now()
			_, err := io.ReadAll(resp.Body)
			require.Equal(t, silenceLimit+1, silenceOf(t, err).Elapsed)
			require.Equal(t, silenceLimit+1-(waited-wait), time.Since(began))
			return
		}
		require.Equal(t, chunk, hear(t, resp.Body))
		if strings.HasPrefix(chunk, "data") {
			waited = 0
		}
	}
}

func TestAliveRace(t *testing.T) {
	for seed := range uint64(500) {
		synctest.Test(t, func(t *testing.T) { endPings(t, rand.New(rand.NewPCG(seed, 17))) })
	}
}

// endPings lets a ping come, the connection be written to, the silence trip and the reader close at about the same
// time.
func endPings(t *testing.T, rng *rand.Rand) {
	about := func() time.Duration { return silenceLimit + time.Duration(rng.IntN(3)) }
	pings := every(t, about()/2, commentPing, commentPing)
	writeAt, closeAt := about(), about()+time.Duration(rng.IntN(2))*time.Hour
	resp := filtered(t.Context(), t, &watchdoghttp.Transport{Idle: silenceLimit, Alive: watchdoghttp.EventStream}, struct {
		io.ReadCloser
		io.Writer
	}{pings, io.Discard})
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() { time.Sleep(writeAt); resp.Body.(io.Writer).Write([]byte("hello")) })
	others.Go(func() { time.Sleep(closeAt); resp.Body.Close() })
	all, err := io.ReadAll(resp.Body)
	require.Contains(t, commentPing+commentPing, string(all))
	if errors.Is(err, watchdoghttp.ErrSilent) {
		require.Equal(t, silenceLimit+1, silenceOf(t, err).Elapsed)
	} else {
		require.ErrorIs(t, err, io.ErrClosedPipe)
	}
}

// TestInsideTimer checks that an exchange is a sign of life of a timer of package idle in its context.
func TestInsideTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, timer := idle.WithLimit(t.Context(), time.Minute)
		defer timer.Close()
		body := filtered(ctx, t, &watchdoghttp.Transport{Idle: watchdog.NoLimit}, every(t, time.Minute, "a", "b", "c"))
		chunk := make([]byte, 8)
		for range 3 {
			_, err := io.ReadAtLeast(body.Body, chunk, 1)
			require.NoError(t, err)
		}
		require.NoError(t, ctx.Err())
		time.Sleep(time.Minute + 1)
		synctest.Wait()
		_, stopped := timer.Stopped()
		require.True(t, stopped)
	})
}

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
