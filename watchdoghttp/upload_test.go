package watchdoghttp_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/watchdoghttp"
)

func TestRequestBody(t *testing.T) {
	// sentAs returns the body that the base was given for one of that length.
	sentAs := func(t *testing.T, body io.Reader) (original, sent io.ReadCloser) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://example.org/", body)
		require.NoError(t, err)
		_, err = fetch(t, (&watchdoghttp.Transport{Base: based(func(req *http.Request) (*http.Response, error) {
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
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://example.org/", body)
	require.NoError(t, err)
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
