package watchdoghttp

import (
	"context"
	"io"
	"net/http"
	"sync"

	"github.com/seed62658d38/watchdog/internal/handle"
)

// A stream is one HTTP exchange, and the body of its response. Its silence has tripped or is over by the end; each
// of these ends the request's context, which is what lets go of the connection.
type stream struct {
	silence
	signs  handle.Signs // of the context; nil if there is nothing to tell
	cancel context.CancelCauseFunc
	filter func(*http.Response) func([]byte) bool // nil, or what makes alive

	body      io.ReadCloser     // the base's; set before anybody waits for it
	alive     func([]byte) bool // nil if every chunk is a sign of life
	closeOnce sync.Once
	closeErr  error
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
	s.body = resp.Body
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
	err := s.closeBody()
	s.finish()
	return err
}

func (s *stream) closeBody() error {
	s.closeOnce.Do(func() { s.closeErr = s.body.Close() })
	return s.closeErr
}

// finish lets go of the timer and the context.
func (s *stream) finish() {
	s.stop()
	s.cancel(nil)
}

// end ends the exchange for its silence. Closing reaches what no context does: a connection that was upgraded.
func (s *stream) end(why *SilenceError) {
	s.cancel(why)
	if s.body != nil {
		_ = s.closeBody() // the reader gets the silence
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
