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

// newEvents returns the filter of a response that is a stream of events.
func newEvents() func([]byte) bool {
	return watchdoghttp.EventStream(&http.Response{Header: http.Header{"Content-Type": {"text/event-stream"}}})
}

func TestEventStream(t *testing.T) {
	// What a last line without an end is: checkSplit judges the lines that have one.
	for text, alive := range map[string]bool{
		"": false, ":": false, ": ping": false, "id: 7": false, "retry": false, "event: ping": false, "\ufeff: ping": false,
		"event: pin":           false, // it can become a ping
		"event: ping\ndata: x": false, "d": true, "data: token without an end": true, "event: pings": true, "event:  ": true,
		"id is no ID": true, "\xef\xbb:": true, "{\"error\": \"no events at all\"}": true, strings.Repeat("x", 1<<16): true,
	} {
		t.Run(fmt.Sprintf("alive is %v of %.40q", alive, text), func(t *testing.T) {
			require.Equal(t, alive, newEvents()([]byte(text)))
		})
	}
	for _, header := range []http.Header{
		nil,
		{"Content-Type": {"application/json"}},
		{"Content-Type": {"text/event-streams"}},
		{"Content-Type": {"text/event-stream"}, "Content-Encoding": {"gzip"}},
	} {
		t.Run(fmt.Sprintf("has nothing to say of %v", header), func(t *testing.T) {
			require.Nil(t, watchdoghttp.EventStream(&http.Response{Header: header}))
		})
	}
	for _, contentType := range []string{"Text/Event-Stream;charset=utf-8", " text/event-stream ; x"} {
		t.Run("is for "+contentType, func(t *testing.T) {
			resp := &http.Response{Header: http.Header{"Content-Type": {contentType}, "Content-Encoding": {"identity"}}}
			require.NotNil(t, watchdoghttp.EventStream(resp))
		})
	}
	t.Run("allocates nothing per chunk", func(t *testing.T) {
		alive, chunk := newEvents(), []byte("id: 1\nevent: ping\ndata: x\n\ndata: token\n\n")
		require.Zero(t, testing.AllocsPerRun(1000, func() { alive(chunk) }))
	})
}

// FuzzEventStream holds the filter against a parser of whole lines, however a stream is cut into chunks.
func FuzzEventStream(f *testing.F) {
	for seed := range uint64(3000) {
		f.Add(randomEvents(rand.New(rand.NewPCG(seed, 11))), seed)
	}
	for _, text := range []string{
		"event: ping\nevent\ndata: x\n\n", "event: ping\nevent: message\ndata: x\n\n", "event: ping\n\ndata: token\n\n",
		"\ufeff\ufeff: ping\n", "\n\ufeff: ping\n", "\xef\xbb: ping\n", "\xef\n", "\ufeffevent: ping\ndata: x\n\n",
		"event: ping\revent: ping\rid: 7\rother: x\r\r", strings.Repeat("x", 1<<16) + "\nevent: ping",
	} {
		f.Add(text, uint64(1))
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		checkSplit(t, text, rand.New(rand.NewPCG(seed, 5)))
	})
}

// eventWords are what random streams are made of.
var eventWords = []string{
	"\n", "\r", "\r\n", "\n\n", ":", " ", "event", "event:", "event: ping", "event:ping", "ping", "data", "data: x",
	"id", "id: 1", "retry", "retry:1", "\ufeff", "\xef", "e", "event: pin", "event: pings", "event: Ping", "event:  ping",
	": ping", "other", "id is no ID", "data: token\n\n", strings.Repeat("x", 600),
}

func randomEvents(rng *rand.Rand) string {
	var text strings.Builder
	for range rng.IntN(12) {
		text.WriteString(eventWords[rng.IntN(len(eventWords))])
	}
	return text.String()
}

// checkSplit compares chunks of random lengths, and the whole, with single bytes; and these, line by line, with a
// parser that has all of the text before it.
func checkSplit(t *testing.T, text string, rng *rand.Rand) {
	t.Helper()
	bytewise, single := make([]bool, len(text)), newEvents()
	for i := range len(text) {
		bytewise[i] = single([]byte{text[i]})
	}
	among := func(from, to int) bool { return strings.Contains(fmt.Sprint(bytewise[from:to]), "true") }
	require.Equal(t, among(0, len(text)), newEvents()([]byte(text)), "%q", text)
	chunks := newEvents()
	for from := 0; from < len(text); {
		to := from + 1 + rng.IntN(len(text)-from)
		require.Equal(t, among(from, to), chunks([]byte(text[from:to])), "%q in %q", text[from:to], text)
		from = to
	}
	from := 0
	for _, line := range slowEvents(text) {
		require.Equal(t, line.alive, among(from, line.end), "%q in %q", text[from:line.end], text)
		from = line.end
	}
}

// A judgedLine is a line of a stream of events, with its end in the text.
type judgedLine struct {
	end   int
	alive bool
}

// slowEvents judges the lines of a text as the HTML standard parses them. It leaves out a last one without an end.
func slowEvents(text string) (lines []judgedLine) {
	ping, at := false, 0
	for {
		n := strings.IndexAny(text[at:], "\r\n")
		if n < 0 {
			return lines
		}
		line, end := text[at:at+n], at+n+1
		if strings.HasPrefix(text[at+n:], "\r\n") {
			end++
		}
		if at == 0 {
			line = strings.TrimPrefix(line, "\ufeff")
		}
		field, value, _ := strings.Cut(line, ":")
		switch {
		case line == "":
			ping = false
		case field == "event":
			ping = strings.TrimPrefix(value, " ") == "ping"
		}
		quiet := line == "" || field == "" || field == "id" || field == "retry" || ping
		lines = append(lines, judgedLine{end: end, alive: !quiet})
		at = end
	}
}
