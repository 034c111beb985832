package watchdoghttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

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
	t.Run("has closed its body once, however often its reader did", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			read, _ := io.Pipe()
			body := &closed{Reader: read}
			resp := through(t, time.Hour, body)
			require.NoError(t, resp.Body.Close())
			require.NoError(t, resp.Body.Close())
			require.Equal(t, 1, body.times)
		})
	})
}

// broken is a body that cannot be read.
type broken struct{}

func (*broken) Read([]byte) (int, error) { return 0, errDiskFull }

func TestTimerLetsGo(t *testing.T) {
	t.Run("of a transport", func(t *testing.T) {
		held := readAndForget(t)
		require.Eventually(t, func() bool { runtime.GC(); return held.Value() == nil }, time.Minute, time.Millisecond)
	})
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
	t.Run("a copy that cannot be had is the base's to report", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
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
