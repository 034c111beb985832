package watchdog

import (
	"fmt"
	"io"
	"net/http"
	"time"
)

// DefaultSilence is how long a server may be silent where the [Transport] does not say: a model that thinks before it answers
// may be so for minutes.
const DefaultSilence = 5 * time.Minute

// A Transport makes an HTTP exchange part of the run in the request's context (see [FromContext]): the answer's header and every chunk
// of its body are activity of the run, as is every chunk of the request's. And it ends an exchange in which the
// server is silent for too long, with a [Silence] as the error: from RoundTrip where no header came, otherwise from the body's Read.
//
//	client := &http.Client{Transport: &watchdog.Transport{}}
//
// The zero value is ready. It works with HTTP/1.1, HTTP/2, server-sent events and upgraded connections, with a run and without. It
// reads nothing ahead, keeps nothing back, and leaves trailers and reused connections as they are; it starts no goroutine. A chunk costs
// two looks at the clock, and one more where there is a run: no allocation, no timer.
//
// Silence is time that somebody waits for the server: from RoundTrip to the header, with dialling and redirects each anew, and within
// each Read of the body. A reader that takes its time between two reads has not been kept waiting. What is sent, and what is written to an
// upgraded connection, begins it anew. Informational (1xx) answers and what a base decompresses without handing it out
// do not count as signs of life.
//
// It is safe for concurrent use, and must not be changed once it is in use.
type Transport struct {
	// Base does the exchange; nil means [http.DefaultTransport]. It must heed the request's context, as that one does: the end of
	// the context and closing the body are all that ends an exchange.
	Base http.RoundTripper
	// Silence is how long a server may be silent; then the exchange is ended, with its connection (HTTP/1.1) or stream
	// (HTTP/2). Zero means [DefaultSilence], [NoLimit] no limit.
	Silence time.Duration
}

// RoundTrip implements [http.RoundTripper]. Besides the errors of the base it returns a [*Silence] for a server that did not
// answer in time, and an error that wraps [ErrInvalid].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	limit := t.Silence
	switch {
	case limit < 0:
		closeBody(req.Body)
		return nil, fmt.Errorf("%w transport: Silence is %v; use a positive duration, 0 for %v, or NoLimit", ErrInvalid, limit, DefaultSilence)
	case limit == 0:
		limit = DefaultSilence
	}
	watchdog := FromContext(req.Context())
	if watchdog == nil && limit == NoLimit {
		return t.base().RoundTrip(req)
	}
	s := &stream{watchdog: watchdog, silence: silence{limit: limit, host: req.URL.Host}}
	return s.roundTrip(t.base(), req)
}

// CloseIdleConnections does so in the base if that can, for [http.Client.CloseIdleConnections].
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

// closeBody closes a request's body, as a RoundTripper has to whatever happens.
func closeBody(body io.Closer) {
	if body != nil {
		_ = body.Close() // the error that matters is why it was not sent
	}
}
