package watchdoghttp

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync/atomic"
)

// A sending is what is known of how far a request came, by what its base tells the trace of the request. It is for one
// RoundTrip, which may take several attempts.
//
// Only two things say for certain that nothing was sent that can be billed: no connection was obtained, or HTTP/2 says
// that the stream was not processed. All else is doubt.
type sending struct {
	asked     atomic.Bool // for a connection: a base that never does may tell nothing of those that it has
	connected atomic.Bool
	answered  atomic.Bool
}

// watch returns a copy of a request that tells the sending how far it comes with a base.
func (s *sending) watch(req *http.Request, base http.RoundTripper) *http.Request {
	sent := req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GetConn:              func(string) { s.asked.Store(true) },
		GotConn:              func(httptrace.GotConnInfo) { s.connected.Store(true) },
		GotFirstResponseByte: func() { s.answered.Store(true) },
	}))
	if rewind := req.GetBody; rewind != nil && triesOnce(base, req) {
		sent.GetBody = func() (io.ReadCloser, error) {
			s.connected.Store(false) // another attempt begins
			return rewind()
		}
	}
	return sent
}

// unsent reports whether a request that ended with an error was certainly not sent.
func (s *sending) unsent(err error) bool {
	var dial *net.OpError
	switch {
	case s.connected.Load():
		return !s.answered.Load() && unprocessed(err)
	case s.asked.Load():
		return true
	}
	return errors.As(err, &dial) && dial.Op == "dial"
}

// triesOnce reports whether a base sends a request once: net/http's own transport tries again only what was not
// processed, and what it takes for safe to send twice. Of any other base it is not known.
func triesOnce(base http.RoundTripper, req *http.Request) bool {
	for {
		switch b := base.(type) {
		case *http.Transport:
			return req.Header["Idempotency-Key"] == nil && req.Header["X-Idempotency-Key"] == nil
		case *Transport:
			base = b.base()
		default:
			return false
		}
	}
}

// unprocessedTexts are what net/http and x/net/http2 say of a stream that the server did not process: a reset that says
// so, a GOAWAY with a lower stream, and a connection that had ended before the stream began. They have no other form.
var unprocessedTexts = []string{
	"; REFUSED_STREAM; received from peer",
	"http2: Transport received Server's graceful shutdown GOAWAY",
	"http2: Transport received GOAWAY from server ErrCode:",
	"http2: client conn not usable",
	"http2: client conn could not be established",
}

// unprocessed reports whether an error says that a stream of HTTP/2 was not processed.
func unprocessed(err error) bool {
	text := err.Error()
	return slices.ContainsFunc(unprocessedTexts, func(says string) bool { return strings.Contains(text, says) })
}
