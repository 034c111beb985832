package watchdoghttp

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
)

// DefaultIdle is how long a server may be silent if the [Transport] does not say. A model that thinks before it answers
// may be silent for minutes.
const DefaultIdle = 5 * time.Minute

// A Transport makes an HTTP exchange part of the run in the request's context (see [watchdog.FromContext]). The
// answer's header and every chunk of its body are activity of the run, and so is every chunk of the request's body.
// They are signs of life of a timer of package idle in the context, too. An exchange in which the server is silent for
// too long ends with a [*SilenceError]: from RoundTrip if no header came, otherwise from the body's Read.
//
//	client := &http.Client{Transport: &watchdoghttp.Transport{}}
//
// The zero value is ready. It works with HTTP/1.1, HTTP/2, server-sent events and upgraded connections, with a run and
// without. It reads nothing ahead, holds nothing back, and leaves trailers and reused connections as they are. It
// starts no goroutine. A chunk costs two reads of the clock, and one more with a run: no allocation, no timer.
//
// Silence is time that somebody waits for the server: from RoundTrip to the header, with dialling, each redirect anew,
// and within each Read of the body. Time between two reads is the reader's. What is sent, and what is written to an
// upgraded connection, starts the wait again. Informational (1xx) answers are no signs of life, nor is what a base
// decompresses without handing it out, nor a chunk of which Alive says so.
//
// It is safe for concurrent use, and must not be changed once it is in use.
type Transport struct {
	// Base does the exchange; nil means [http.DefaultTransport]. It must obey the request's context, as that one does: the
	// end of the context and closing the body are all that ends an exchange.
	Base http.RoundTripper
	// Idle is how long a server may be silent. Then the exchange ends, with its connection (HTTP/1.1) or stream (HTTP/2).
	// Zero means [DefaultIdle], [watchdog.NoLimit] no limit.
	Idle time.Duration
	// Alive chooses what counts as life in a response's body, for servers that send pings while they do nothing. It is
	// called once the header is there, must not read the body, and returns the filter for it; nil, also from the call,
	// means that every chunk counts. [EventStream] is a ready-made one for server-sent events.
	//
	// The filter is called within Read with each chunk as it comes, in order, and must not change or keep it. It returns
	// false for one without a sign of life. Such a chunk is handed out like any other, but is no activity of the run and
	// ends no wait: the next Read goes on with it, without the time between the two. A filter costs its own time, which
	// is no silence, and one more read of the clock for each chunk.
	Alive func(resp *http.Response) func(chunk []byte) bool
}

// RoundTrip implements [http.RoundTripper]. Besides the errors of the base it returns a [*SilenceError] for a server
// that did not answer in time. It wraps [watchdog.ErrInvalid] for a negative Idle, and nothing is sent then.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	limit := t.Idle
	switch {
	case limit < 0:
		closeBody(req.Body)
		return nil, fmt.Errorf("%w transport: Idle is %v; use a positive duration, 0 for %v, or watchdog.NoLimit",
			watchdog.ErrInvalid, limit, DefaultIdle)
	case limit == 0:
		limit = DefaultIdle
	}
	signs := handle.SignsOf(req.Context())
	if signs == nil && limit == watchdog.NoLimit {
		return t.base().RoundTrip(req)
	}
	s := &stream{signs: signs, filter: t.Alive, silence: silence{limit: limit, host: req.URL.Host}}
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
