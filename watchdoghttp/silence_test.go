package watchdoghttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/idle"
	"github.com/seed62658d38/watchdog/watchdoghttp"
)

var errDiskFull = errors.New("disk full")

func TestExchangeOver(t *testing.T) {
	// contextOf exchanges with a base that answers with the body and the error, lets the reader end it, and returns the
	// context that the base had.
	contextOf := func(t *testing.T, body io.ReadCloser, fail error, end func(io.ReadCloser)) context.Context {
		t.Helper()
		var had context.Context
		answer, err := trip(t, &watchdoghttp.Transport{Base: based(func(req *http.Request) (*http.Response, error) {
			had = req.Context()
			return &http.Response{StatusCode: http.StatusOK, Body: body}, fail
		})})
		require.Equal(t, fail, err)
		if err == nil {
			end(answer.Body)
		}
		return had
	}
	toTheEnd := func(body io.ReadCloser) { io.Copy(io.Discard, body) }
	for name, over := range map[string]struct {
		body io.ReadCloser
		err  error
		end  func(io.ReadCloser)
	}{
		"read to its end": {body: io.NopCloser(strings.NewReader("hello")), end: toTheEnd},
		"broken":          {body: io.NopCloser(&broken{}), end: toTheEnd},
		"closed":          {body: io.NopCloser(strings.NewReader("hello")), end: func(body io.ReadCloser) { body.Close() }},
		"without a body":  {body: http.NoBody, end: func(io.ReadCloser) {}},
		"never begun":     {err: errDiskFull},
	} {
		t.Run(name+" has let go of its context", func(t *testing.T) {
			require.ErrorIs(t, contextOf(t, over.body, over.err, over.end).Err(), context.Canceled)
		})
	}
	bubble(t, "has closed its body once, however often its reader did", func(t *testing.T) {
		read, _ := io.Pipe()
		body := &closed{Reader: read}
		resp := through(t, time.Hour, body)
		require.NoError(t, resp.Body.Close())
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 1, body.times)
	})
}

// broken is a body that cannot be read.
type broken struct{}

func (*broken) Read([]byte) (int, error) { return 0, errDiskFull }

// TestTimerLetsGo checks that the timer of a transport holds no body that was read.
func TestTimerLetsGo(t *testing.T) {
	held := readAndForget(t)
	require.Eventually(t, func() bool { runtime.GC(); return held.Value() == nil }, time.Minute, time.Millisecond)
}

// readAndForget reads a body through a transport to its end.
func readAndForget(t *testing.T) weak.Pointer[closed] {
	t.Helper()
	body := &closed{Reader: strings.NewReader("hello")}
	req := request(t.Context(), t, http.MethodGet, "http://example.org/", nil)
	resp, err := (&watchdoghttp.Transport{Base: based(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: body}, nil
	})}).RoundTrip(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = io.ReadAll(resp.Body)
	require.NoError(t, err)
	return weak.Make(body)
}

func TestTimer(t *testing.T) {
	t.Run("does not trip a wait that it finds at exactly its limit", func(t *testing.T) {
		for range 50 { // the timer and the server come at the same moment, in either order
			synctest.Test(t, func(t *testing.T) {
				read, write := io.Pipe()
				resp := through(t, silenceLimit, read)
				go func() {
					time.Sleep(time.Nanosecond) // now the timer is due when the next wait has taken its limit
					io.WriteString(write, "a")
					time.Sleep(silenceLimit)
					io.WriteString(write, "b")
					write.Close()
				}()
				all, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.Equal(t, "ab", string(all))
			})
		}
	})
	t.Run("sees a wait that begins as it looks", func(t *testing.T) {
		for range 200 {
			synctest.Test(t, func(t *testing.T) {
				read, _ := io.Pipe()
				resp := through(t, silenceLimit, read)
				time.Sleep(silenceLimit + 1)
				start := time.Now()
				_, err := resp.Body.Read(make([]byte, 1))
				silenceOf(t, err)
				require.Equal(t, silenceLimit+1, time.Since(start))
			})
		}
	})
}

// TestRingsLate protects that a pause of the guard is not the server's silence.
func TestRingsLate(t *testing.T) {
	grace := min(silenceLimit/4, 5*time.Second)
	bubble(t, "what comes in the grace is in time", func(t *testing.T) {
		read, write := io.Pipe()
		resp := through(t, silenceLimit, read)
		watchdoghttp.RingLate(resp.Body, grace+1)
		go func() {
			time.Sleep(silenceLimit + grace)
			io.WriteString(write, "a")
			time.Sleep(silenceLimit)
			io.WriteString(write, "b")
			write.Close()
		}()
		all, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "ab", string(all))
	})
	for _, late := range []time.Duration{grace, grace + 1} {
		bubble(t, fmt.Sprintf("nothing comes, and the timer rang %v late", late), func(t *testing.T) {
			read, _ := io.Pipe()
			resp := through(t, silenceLimit, read)
			watchdoghttp.RingLate(resp.Body, late)
			_, err := resp.Body.Read(make([]byte, 1))
			want := silenceLimit + 1
			if late > grace {
				want += grace
			}
			require.Equal(t, want, silenceOf(t, err).Elapsed)
		})
	}
}

func TestRequestBody(t *testing.T) {
	// sentAs returns the body that the base was given for one of that length.
	sentAs := func(t *testing.T, body io.Reader) (original, sent io.ReadCloser) {
		t.Helper()
		req := request(t.Context(), t, http.MethodPost, "http://example.org/", body)
		_, err := fetch(t, (&watchdoghttp.Transport{Base: based(func(req *http.Request) (*http.Response, error) {
			sent = req.Body
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		})}).RoundTrip, req)
		require.NoError(t, err)
		return req.Body, sent
	}
	small := bytes.NewReader(make([]byte, 1<<20))
	for _, body := range []io.Reader{nil, http.NoBody, strings.NewReader("hello"), small} {
		t.Run(fmt.Sprintf("is sent as it is where it is gone in an instant: %T", body), func(t *testing.T) {
			original, sent := sentAs(t, body)
			require.Equal(t, original, sent)
		})
	}
	large := bytes.NewReader(make([]byte, 1<<20+1))
	for _, body := range []io.Reader{io.MultiReader(strings.NewReader("hello")), large} {
		t.Run(fmt.Sprintf("is watched where it may take its time, and closed by its sender: %T", body), func(t *testing.T) {
			original, sent := sentAs(t, body)
			require.NotEqual(t, original, sent)
			require.NoError(t, sent.Close())
		})
	}
}

func TestUploadLength(t *testing.T) {
	for name, length := range map[string]int64{"of length -1": -1, "of length 0 with a body": 0, "of 2 MiB": 2 << 20} {
		t.Run("a slow upload "+name+" is no silence while it is sent, though it can be sent again", func(t *testing.T) {
			overUploads(t, func(req *http.Request) { req.ContentLength = length }, func(req *http.Request) error {
				return receive(req.Body)
			})
		})
		t.Run("neither is one "+name+" that the base sends again", func(t *testing.T) {
			overUploads(t, func(req *http.Request) { req.ContentLength = length }, func(req *http.Request) error {
				require.NoError(t, req.Body.Close())
				again, err := req.GetBody()
				require.NoError(t, err)
				return receive(again)
			})
		})
	}
	bubble(t, "a copy that cannot be had is the base's to report", func(t *testing.T) {
		lost := func(req *http.Request) {
			req.ContentLength = -1
			req.GetBody = func() (io.ReadCloser, error) { return nil, errDiskFull }
		}
		_, err := upload(t, lost, func(req *http.Request) error {
			_, err := req.GetBody()
			return err
		})
		require.Equal(t, errDiskFull, err)
	})
}

// overUploads expects that an upload in chunks, each of which takes the limit, is answered.
func overUploads(t *testing.T, change func(*http.Request), send func(*http.Request) error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := upload(t, change, send)
		require.NoError(t, err, "the upload was taken for silence")
		require.Equal(t, 3*silenceLimit, time.Since(began))
	})
}

// upload sends a request that is changed first to a base that sends it so.
func upload(t *testing.T, change func(*http.Request), send func(*http.Request) error) (page, error) {
	t.Helper()
	copied := func() (io.ReadCloser, error) { return io.NopCloser(&slow{chunks: 3}), nil }
	body, _ := copied()
	req := request(t.Context(), t, http.MethodPost, "http://example.org/", body)
	req.GetBody = copied
	change(req)
	base := based(func(req *http.Request) (*http.Response, error) {
		if err := send(req); err != nil {
			return nil, err
		}
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, req.Context().Err()
	})
	return fetch(t, (&watchdoghttp.Transport{Base: base, Idle: silenceLimit}).RoundTrip, req)
}

// receive reads a request's body to its end.
func receive(body io.Reader) error {
	_, err := io.Copy(io.Discard, body)
	return err
}

// slow is a body of which each chunk takes the limit.
type slow struct{ chunks int }

func (s *slow) Read(p []byte) (int, error) {
	if s.chunks == 0 {
		return 0, io.EOF
	}
	s.chunks--
	time.Sleep(silenceLimit)
	return copy(p, "chunk"), nil
}

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

// A writable is the body of an upgraded connection.
type writable struct {
	io.ReadCloser
	io.Writer
}

func sse() *watchdoghttp.Transport {
	return &watchdoghttp.Transport{Idle: silenceLimit, Alive: watchdoghttp.EventStream}
}

func TestAlive(t *testing.T) {
	bubble(t, "pings end no wait, and are handed out at once and unchanged", func(t *testing.T) {
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
	bubble(t, "pings are no activity of the run, tokens are", func(t *testing.T) {
		wd := idling(t, silenceLimit)
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
	bubble(t, "what is written to an upgraded connection between reads starts the wait again", func(t *testing.T) {
		resp := filtered(t.Context(), t, sse(), writable{every(t, 25*time.Second, commentPing), io.Discard})
		require.Equal(t, commentPing, hear(t, resp.Body))
		resp.Body.(io.Writer).Write([]byte("hello"))
		began := time.Now()
		_, err := resp.Body.Read(make([]byte, 64))
		silenceOf(t, err)
		require.Equal(t, silenceLimit+1, time.Since(began))
	})
	bubble(t, "a slow filter is no silence", func(t *testing.T) {
		transport := &watchdoghttp.Transport{Idle: silenceLimit, Alive: func(*http.Response) func([]byte) bool {
			return func([]byte) bool { time.Sleep(silenceLimit); return true }
		}}
		resp := filtered(t.Context(), t, transport, every(t, 25*time.Second, token, token))
		for range 2 {
			require.Equal(t, token, hear(t, resp.Body))
		}
	})
}

// TestAliveModel: the wait since the last sign of life is the sum of the reads.
func TestAliveModel(t *testing.T) {
	for seed := range uint64(500) {
		synctest.Test(t, func(t *testing.T) { waitAndCompare(t, rand.New(rand.NewPCG(seed, 13))) })
	}
}

// waitAndCompare reads chunks that come at random moments, with time of its own between two reads, and expects the
// silence where the waits since the last sign of life add up to more than the limit.
func waitAndCompare(t *testing.T, rng *rand.Rand) {
	read, write := io.Pipe()
	var sending sync.WaitGroup
	defer sending.Wait()
	resp := filtered(t.Context(), t, sse(), read)
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
	resp := filtered(t.Context(), t, sse(), writable{pings, io.Discard})
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
