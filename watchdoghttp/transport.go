package watchdoghttp

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
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
// decompresses without handing it out, nor a chunk of which Alive says so. After a pause of this process what waits in
// the connection has a grace in which to be read, as [watchdog.Budget].Idle says.
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
	// means that every chunk counts. [EventStream] is a ready-made one for server-sent events and JSON values.
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

// A stream is one HTTP exchange, and the body of its response. Its silence has tripped or is over by the end; each
// of these ends the request's context, which is what lets go of the connection.
type stream struct {
	silence
	signs  handle.Signs // of the context; nil if there is nothing to tell
	cancel context.CancelCauseFunc
	filter func(*http.Response) func([]byte) bool // nil, or what makes alive

	body  io.Reader         // the base's
	close func() error      // that, once; set before anybody waits for it
	alive func([]byte) bool // nil if every chunk is a sign of life
}

// roundTrip waits for the header. The request is copied because it is the caller's.
func (s *stream) roundTrip(base http.RoundTripper, req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	s.cancel = cancel
	sent := req.WithContext(ctx)
	s.watchUpload(sent)
	s.watch(s.end)
	resp, err := base.RoundTrip(sent)
	switch {
	case !s.heard():
		if err == nil {
			closeBody(resp.Body)
		}
		return nil, s.err
	case err != nil:
		s.finish()
		return nil, err
	}
	s.tellAlive()
	if resp.Request == sent {
		resp.Request = req
	}
	s.deliver(resp)
	return resp, nil
}

// deliver puts the stream in the place of the response's body, if it has one.
func (s *stream) deliver(resp *http.Response) {
	if resp.Body == nil || resp.Body == http.NoBody {
		s.finish()
		return
	}
	if s.filter != nil {
		s.alive = s.filter(resp)
	}
	s.body, s.close = resp.Body, sync.OnceValue(resp.Body.Close)
	s.answered.Store(true)
	resp.Body = s
	if writer, ok := s.body.(io.Writer); ok {
		resp.Body = &upgraded{s, writer}
	}
}

// Read implements [io.Reader]. What arrived is handed out also where the silence ended the exchange meanwhile.
func (s *stream) Read(p []byte) (int, error) {
	s.await()
	n, err := s.body.Read(p)
	inTime := s.came(p[:n])
	switch {
	case !inTime:
		return n, s.err
	case err != nil:
		s.finish()
	}
	return n, err
}

// came ends the wait for a chunk, and reports whether it was not too long. While a filter looks at the chunk nobody
// waits, so that one that came in time is in time however long that takes.
func (s *stream) came(chunk []byte) bool {
	if s.alive == nil {
		inTime := s.heard()
		if len(chunk) > 0 {
			s.tellAlive()
		}
		return inTime
	}
	inTime := s.pause()
	if len(chunk) > 0 && s.alive(chunk) {
		s.renew()
		s.tellAlive()
	}
	return inTime
}

// Close implements [io.Closer]. It may be called while a Read waits.
func (s *stream) Close() error {
	err := s.close()
	s.finish()
	return err
}

// finish lets go of the timer and the context.
func (s *stream) finish() {
	s.stop()
	s.cancel(nil)
}

// end ends the exchange for its silence. Closing reaches what no context does: a connection that was upgraded.
func (s *stream) end(why *SilenceError) {
	s.cancel(why)
	if s.close != nil {
		_ = s.close() // the reader gets the silence
	}
}

// upgraded is the stream of a connection that both sides write to.
type upgraded struct {
	*stream
	writer io.Writer
}

// Write implements [io.Writer].
func (u *upgraded) Write(p []byte) (int, error) {
	n, err := u.writer.Write(p)
	u.sent(n)
	return n, err
}

// CloseWrite says that nothing more is written, where the connection can.
func (u *upgraded) CloseWrite() error {
	if half, ok := u.writer.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return http.ErrNotSupported
}

// tellAlive makes a sign of life in the run, and in a timer, of the request's context.
func (s *stream) tellAlive() {
	if s.signs != nil {
		s.signs.Alive()
	}
}

// sent is a sign of life from this side.
func (s *stream) sent(n int) {
	if n > 0 {
		s.renew()
		s.tellAlive()
	}
}

// smallBody is the length up to which a request's body is not watched as it is sent, where the request has a copy of it
// in memory: it is gone in an instant, and sends itself in one packet with the header if it is left as it is.
const smallBody = 1 << 20

// watchUpload makes the request's body signs of life, and so each copy of it that the base sends on another connection.
func (s *stream) watchUpload(req *http.Request) {
	// To net/http a length of 0 with a body is as unknown as -1.
	inOnePacket := req.GetBody != nil && req.ContentLength > 0 && req.ContentLength <= smallBody
	if noBody(req.Body) || inOnePacket {
		return
	}
	req.Body = &sentBody{req.Body, s}
	if again := req.GetBody; again != nil {
		req.GetBody = func() (io.ReadCloser, error) {
			body, err := again()
			if err != nil || noBody(body) {
				return body, err
			}
			return &sentBody{body, s}, nil
		}
	}
}

func noBody(body io.ReadCloser) bool { return body == nil || body == http.NoBody }

// sentBody is the body of the request.
type sentBody struct {
	io.ReadCloser
	stream *stream
}

// Read implements [io.Reader].
func (b *sentBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.stream.sent(n)
	return n, err
}
