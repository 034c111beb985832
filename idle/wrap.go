package idle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
)

// Recv receives from a channel, as v, ok := <-ch does, and makes a sign of life of what it receives. If the context is
// done it returns its cause. It prefers that to a value that waits, so that a loop around it ends; a value that waits
// stays in the channel. It cannot see what waits while its caller works: see [Config].Busy.
func Recv[T any](ctx context.Context, ch <-chan T) (v T, ok bool, err error) {
	if ctx.Err() != nil {
		return v, false, context.Cause(ctx)
	}
	select { // costs half of one that waits for both
	case v, ok = <-ch:
	default:
		select {
		case v, ok = <-ch:
		case <-ctx.Done():
			return v, false, context.Cause(ctx)
		}
	}
	if signs := handle.SignsOf(ctx); ok && signs != nil {
		signs.Alive()
	}
	return v, ok, nil
}

// NewReader returns a reader that makes a sign of life of each chunk that r returns, in the context's timer and run.
// Alive, if not nil, chooses those that are one; it is called within Read with each chunk, in order, and must not
// change or keep it. What is read, and all errors but the end's, are handed on as they are. If a Read fails and the
// silence has ended the context, its error wraps the [*watchdog.Stop] and what r returned.
//
// It does not end a Read: r has to heed the context, as a response's body does, or be closed when it ends, see
// [NewBody]. If the context has neither a timer nor a run it returns r.
func NewReader(ctx context.Context, r io.Reader, alive func(chunk []byte) bool) io.Reader {
	signs := handle.SignsOf(ctx)
	if signs == nil {
		return r
	}
	return &reader{stream{ctx, signs, r.Read, alive}}
}

// NewWriter returns a writer that makes a sign of life of each chunk that w took. Alive and the errors are as with
// [NewReader].
func NewWriter(ctx context.Context, w io.Writer, alive func(chunk []byte) bool) io.Writer {
	signs := handle.SignsOf(ctx)
	if signs == nil {
		return w
	}
	return &writer{stream{ctx, signs, w.Write, alive}}
}

type (
	reader struct{ stream }
	writer struct{ stream }
)

// Read implements [io.Reader].
func (r *reader) Read(p []byte) (int, error) { return r.pass(p) }

// Write implements [io.Writer].
func (w *writer) Write(p []byte) (int, error) { return w.pass(p) }

// A stream is what is common to a reader and a writer.
type stream struct {
	ctx   context.Context
	signs handle.Signs
	do    func([]byte) (int, error) // the Read or the Write
	alive func([]byte) bool
}

// pass makes a sign of life of what was read or written. A count that cannot be is left to the caller to find.
func (s *stream) pass(p []byte) (int, error) {
	n, err := s.do(p)
	if n > 0 && n <= len(p) && (s.alive == nil || s.alive(p[:n])) {
		s.signs.Alive()
	}
	if err != nil {
		err = explain(s.ctx, err)
	}
	return n, err
}

// NewBody is [NewReader] for what has to be closed: a response's body, a pipe, a connection. The end of the context
// closes it, so that a Read that waits for more returns. It is closed once, whoever closes it, and Close returns what
// that returned.
func NewBody(ctx context.Context, body io.ReadCloser, alive func(chunk []byte) bool) io.ReadCloser {
	b := &readCloser{Reader: NewReader(ctx, body, alive), close: sync.OnceValue(body.Close)}
	b.stop = context.AfterFunc(ctx, func() { _ = b.close() }) // the reader has the cause
	return b
}

type readCloser struct {
	io.Reader
	close func() error
	stop  func() bool
}

// Close implements [io.Closer].
func (b *readCloser) Close() error {
	b.stop()
	return b.close()
}

// explain adds the stop to an error that it led to.
func explain(ctx context.Context, err error) error {
	var stop *watchdog.Stop
	if errors.Is(err, io.EOF) || !errors.As(context.Cause(ctx), &stop) || errors.Is(err, error(stop)) {
		return err
	}
	return fmt.Errorf("%w (%w)", stop, err)
}
