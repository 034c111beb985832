package watchdoghttp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/watchdoghttp"
)

func TestBody(t *testing.T) {
	t.Run("with its trailers, and its connection is used again", func(t *testing.T) {
		overBoth(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "Tokens")
			say(w, "hello")
			w.Header().Set("Tokens", "42")
		}, func(o *online) {
			for i := range 3 {
				reused := false
				ctx := httptrace.WithClientTrace(o.Context(), &httptrace.ClientTrace{
					GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused },
				})
				resp := o.opened(ctx, "/")
				all, err := io.ReadAll(resp.Body)
				require.NoError(o, err)
				require.Equal(o, "hello", string(all))
				require.Equal(o, "42", resp.Trailer.Get("Tokens"))
				require.Equal(o, i > 0, reused)
			}
		})
	})
	t.Run("also where there is none", func(t *testing.T) {
		overBoth(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "5") }, func(o *online) {
			resp, err := o.client.Head("http://example.org/")
			require.NoError(o, err)
			require.Equal(o, int64(5), resp.ContentLength)
			all, err := io.ReadAll(resp.Body)
			require.NoError(o, err)
			require.Empty(o, all)
			require.NoError(o, resp.Body.Close())
			time.Sleep(2 * silenceLimit)
		})
	})
	t.Run("after redirects, each of which may take the limit", func(t *testing.T) {
		overBoth(t, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(silenceLimit)
			if r.URL.Path != "/aaa" {
				http.Redirect(w, r, r.URL.Path+"a", http.StatusFound)
				return
			}
			say(w, "hello")
		}, func(o *online) {
			require.Equal(o, "hello", hear(o.T, o.opened(o.Context(), "/").Body))
		})
	})
	t.Run("chunk by chunk: nothing is read ahead or kept back", func(t *testing.T) {
		overBoth(t, func(w http.ResponseWriter, _ *http.Request) {
			for i := range 3 {
				say(w, fmt.Sprint(i))
				time.Sleep(time.Second)
			}
		}, func(o *online) {
			start, body := time.Now(), o.opened(o.Context(), "/").Body
			for i := range 3 {
				require.Equal(o, fmt.Sprint(i), hear(o.T, body))
				require.Equal(o, time.Duration(i)*time.Second, time.Since(start))
			}
			_, err := io.ReadAll(body)
			require.NoError(o, err)
		})
	})
	t.Run("in answer to a request that is not changed, and that its answer names", func(t *testing.T) {
		overBoth(t, stall, func(o *online) {
			body := io.NopCloser(strings.NewReader("hello"))
			req := request(o.Context(), o, http.MethodPost, "http://example.org/", body)
			before := *req
			resp, err := o.transport.RoundTrip(req)
			require.NoError(o, err)
			require.Equal(o, before, *req)
			require.Same(o, req, resp.Request)
			require.NoError(o, resp.Body.Close())
		})
	})
}

func TestBodyClosed(t *testing.T) {
	t.Run("lets its server go, before and after a read", func(t *testing.T) {
		var gone atomic.Int32
		overBoth(t, stalling(&gone), func(o *online) {
			gone.Store(0)
			require.NoError(o, o.opened(o.Context(), "/").Body.Close())
			read := o.opened(o.Context(), "/")
			hear(o.T, read.Body)
			require.NoError(o, read.Body.Close())
			require.NoError(o, read.Body.Close(), "twice")
			synctest.Wait()
			require.Equal(o, int32(2), gone.Load())
			_, err := read.Body.Read(make([]byte, 1))
			require.Error(o, err)
			require.NotErrorIs(o, err, watchdoghttp.ErrSilent)
		})
	})
	t.Run("ends the read that waits", func(t *testing.T) {
		overBoth(t, stall, func(o *online) {
			resp := o.opened(o.Context(), "/")
			hear(o.T, resp.Body)
			time.AfterFunc(time.Second, func() { resp.Body.Close() })
			start := time.Now()
			_, err := resp.Body.Read(make([]byte, 64))
			require.Error(o, err)
			require.NotErrorIs(o, err, watchdoghttp.ErrSilent)
			require.Equal(o, time.Second, time.Since(start))
		})
	})
}

// echo upgrades the connection and answers each line, but "..." with silence.
func echo(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "echo")
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, both, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		for {
			line, err := both.ReadString('\n')
			if err != nil {
				return
			}
			if line != "...\n" {
				both.WriteString(line)
				both.Flush()
			}
		}
	}
}

func TestUpgrade(t *testing.T) {
	// upgrade returns the connection as its user has it.
	upgrade := func(o *online, ctx context.Context) io.ReadWriteCloser {
		req := request(ctx, o, http.MethodGet, "http://example.org/", nil)
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "echo")
		resp, err := o.client.Do(req)
		require.NoError(o, err)
		require.Equal(o, http.StatusSwitchingProtocols, resp.StatusCode)
		o.Cleanup(func() { resp.Body.Close() })
		return resp.Body.(io.ReadWriteCloser)
	}
	over := func(t *testing.T, test func(o *online)) {
		synctest.Test(t, func(t *testing.T) { overPipes(t, false, echo(t), test) })
	}
	t.Run("can be written to, half closed where it can, and closed", func(t *testing.T) {
		over(t, func(o *online) {
			conn := upgrade(o, o.Context())
			for range 3 {
				fmt.Fprintln(conn, "hello")
				line, err := bufio.NewReader(conn).ReadString('\n')
				require.NoError(o, err)
				require.Equal(o, "hello\n", line)
			}
			err := conn.(interface{ CloseWrite() error }).CloseWrite()
			require.ErrorIs(o, err, http.ErrNotSupported, "a pipe cannot")
			require.NoError(o, conn.Close())
		})
	})
	t.Run("that is silent is closed", func(t *testing.T) {
		over(t, func(o *online) {
			conn := upgrade(o, o.Context())
			start := time.Now()
			_, err := conn.Read(make([]byte, 1))
			require.True(o, silenceOf(o.T, err).Answered)
			require.Equal(o, silenceLimit+1, time.Since(start))
			_, err = fmt.Fprintln(conn, "hello")
			require.Error(o, err)
		})
	})
	t.Run("is not silent while it is written to, which is activity of the run", func(t *testing.T) {
		over(t, func(o *online) {
			wd := idling(o.T, time.Minute)
			conn := upgrade(o, wd.Context())
			go func() {
				for range 10 {
					time.Sleep(50 * time.Second)
					fmt.Fprintln(conn, "...")
				}
				fmt.Fprintln(conn, "hello")
			}()
			line, err := bufio.NewReader(conn).ReadString('\n')
			require.NoError(o, err)
			require.Equal(o, "hello\n", line)
			require.Nil(o, wd.Stop())
		})
	})
}

// through sends a request through the transport to a base whose answer has the body.
func through(t *testing.T, silence time.Duration, body io.ReadCloser) page {
	t.Helper()
	resp, err := trip(t, &watchdoghttp.Transport{Idle: silence, Base: based(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: body}, nil
	})})
	require.NoError(t, err)
	return resp
}

func TestBaseIgnoresContext(t *testing.T) {
	bubble(t, "is ended by closing its body", func(t *testing.T) {
		read, _ := io.Pipe()
		resp := through(t, silenceLimit, read)
		_, err := resp.Body.Read(make([]byte, 1))
		silenceOf(t, err)
		require.NoError(t, resp.Body.Close())
	})
	bubble(t, "and answers after all has its body closed", func(t *testing.T) {
		body := &closed{Reader: strings.NewReader("hello")}
		base := based(func(*http.Request) (*http.Response, error) {
			time.Sleep(2 * silenceLimit)
			return &http.Response{StatusCode: http.StatusOK, Body: body}, nil
		})
		_, err := trip(t, &watchdoghttp.Transport{Base: base, Idle: silenceLimit})
		silenceOf(t, err)
		require.Equal(t, 1, body.times)
	})
	t.Run("and has no body to answer with is left as it is", func(t *testing.T) {
		require.Nil(t, through(t, silenceLimit, nil).Body)
	})
}

// endless is a body that always has a chunk.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
func (endless) Close() error               { return nil }

// TestChunkAllocations has no chunk cost an allocation, with a filter and without.
func TestChunkAllocations(t *testing.T) {
	plain, chunk := through(t, time.Hour, endless{}), make([]byte, 4096)
	events := filtered(t.Context(), t, &watchdoghttp.Transport{Alive: watchdoghttp.EventStream}, endless{})
	for _, resp := range []page{plain, events} {
		require.Zero(t, testing.AllocsPerRun(1000, func() { resp.Body.Read(chunk) }))
	}
}

func TestBodyRace(t *testing.T) {
	for seed := range uint64(500) {
		synctest.Test(t, func(t *testing.T) { endBody(t, rand.New(rand.NewPCG(seed, 7))) })
	}
}

// endBody lets a chunk come, the silence trip, the server end and the reader close at about the same time.
func endBody(t *testing.T, rng *rand.Rand) {
	about := func() time.Duration { return silenceLimit + time.Duration(rng.IntN(4)) }
	read, write := io.Pipe()
	chunkAt, endAt, closeAt := about(), about(), about()+time.Duration(rng.IntN(2))*time.Hour
	resp := through(t, silenceLimit, read)
	go func() {
		time.Sleep(chunkAt)
		write.Write([]byte("c"))
		time.Sleep(max(endAt-chunkAt, 0))
		write.Close()
	}()
	go func() {
		time.Sleep(closeAt)
		resp.Body.Close()
	}()
	all, err := io.ReadAll(resp.Body)
	switch {
	case err == nil:
		require.Equal(t, "c", string(all), "a body that was cut off is not complete")
	case errors.Is(err, watchdoghttp.ErrSilent):
		require.Greater(t, silenceOf(t, err).Elapsed, silenceLimit)
	default:
		require.ErrorIs(t, err, io.ErrClosedPipe)
	}
	_, again := resp.Body.Read(make([]byte, 1))
	require.Equal(t, errors.Is(err, watchdoghttp.ErrSilent), errors.Is(again, watchdoghttp.ErrSilent),
		"the end changed: %v, then %v", err, again)
	time.Sleep(2 * time.Hour)
}
