package watchdoghttp_test

import (
	"context"
	"errors"
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
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://example.org/", nil)
	require.NoError(t, err)
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
