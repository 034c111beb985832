package watchdogeino

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/cloudwego/eino/schema"
)

// errClosed is the cause of the end of work whose answer nobody reads any more.
var errClosed = errors.New("the stream of the answer was closed")

// A stream is an answer on its way: from work that may hang and be left behind, to a reader that may stop early. Pieces
// that were not read yet are kept, so that a slow reader is not taken for work that hangs.
//
// What the reader reads is a pipe of ticks, and each tick fetches a piece. One tick is always offered, because only
// schema.StreamWriter.Send says that the reader was closed, and only while it waits. Rejected: a pipe of the pieces
// themselves, which learns of that with the next piece of a tool that may never give one, and which waits for ever for
// a reader that neither reads nor closes.
type stream[T any] struct {
	ticks *schema.StreamReader[struct{}]
	cause func() error  // why the caller's context has ended
	begun chan struct{} // closed once there is something to read, or the work has ended
	over  chan struct{} // closed once the ticks are

	mu     sync.Mutex
	news   sync.Cond // a piece, or the end
	pieces []T
	said   bool // a piece was pushed
	opened bool
	ended  bool
	err    error // how it ended, io.EOF for well
	panic  any
	told   bool // the reader knows the end
}

// begin has the work fill a stream. It returns as soon as the work has opened one to read from, or with the work's
// error or panic. The work's context ends with ctx, and when the stream is closed. Nothing is left once the work has
// returned and the stream was read to its end, or closed, or ctx has ended.
func begin[T any](ctx context.Context, work func(context.Context, *stream[T]) error) (*schema.StreamReader[T], error) {
	ticks, writer := schema.Pipe[struct{}](0)
	ticks.SetAutomaticClose() // so that it can be closed twice, by the reader and by us
	s := &stream[T]{
		ticks: ticks, cause: func() error { return context.Cause(ctx) },
		begun: make(chan struct{}), over: make(chan struct{}),
	}
	s.news.L = &s.mu
	inner, cancel := context.WithCancelCause(ctx)
	go func() {
		s.do(inner, work)
		cancel(nil)
		s.await(ctx)
	}()
	<-s.begun
	go s.offer(writer, cancel)
	if err := s.failed(); err != nil {
		return nil, err
	}
	return schema.StreamReaderWithConvert(ticks, func(struct{}) (T, error) { return s.next() },
		schema.WithOnEOF(s.afterwards)), nil
}

// do does the work. Its panic is one of the reader.
func (s *stream[T]) do(ctx context.Context, work func(context.Context, *stream[T]) error) {
	var err error
	defer func() { s.end(err, recover()) }()
	err = work(ctx, s)
}

// open lets the reader begin.
func (s *stream[T]) open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.opened && !s.ended {
		s.opened = true
		close(s.begun)
	}
}

// push adds a piece. One that comes after the end, from work that was left behind, is dropped.
func (s *stream[T]) push(piece T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.pieces, s.said = append(s.pieces, piece), true
		s.news.Signal()
	}
}

func (s *stream[T]) hasPiece() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said
}

func (s *stream[T]) end(err error, panicked any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		err = io.EOF
	}
	s.ended, s.err, s.panic = true, err, panicked
	if !s.opened {
		close(s.begun)
	}
	s.news.Signal()
}

// failed returns why there is nothing to read, nil if there is, and panics as the work did.
func (s *stream[T]) failed() error {
	s.mu.Lock()
	nothing := s.ended && !s.opened && !s.said
	s.mu.Unlock()
	if !nothing {
		return nil
	}
	if _, err := s.next(); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// relay passes on what a reader of the SDK's has, and closes it. Each is told of each piece before it is passed on.
func (s *stream[T]) relay(ctx context.Context, in *schema.StreamReader[T], each func(T)) error {
	defer in.Close()
	s.open()
	for {
		piece, err := in.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		each(piece)
		s.push(piece)
	}
}

// offer offers ticks until they are closed, by the reader or at the end.
func (s *stream[T]) offer(writer *schema.StreamWriter[struct{}], cancel context.CancelCauseFunc) {
	defer close(s.over)
	defer writer.Close()
	for closed := false; !closed; {
		closed = writer.Send(struct{}{}, nil)
	}
	cancel(errClosed)
}

// next waits for the next piece. It panics as the work did. At the end it closes the ticks.
func (s *stream[T]) next() (piece T, err error) {
	s.mu.Lock()
	for len(s.pieces) == 0 && !s.ended {
		s.news.Wait()
	}
	if len(s.pieces) > 0 {
		defer s.mu.Unlock()
		piece, s.pieces = s.pieces[0], s.pieces[1:]
		return piece, nil
	}
	s.mu.Unlock()
	return piece, s.finish()
}

// finish tells the reader how the work has ended.
func (s *stream[T]) finish() error {
	s.mu.Lock()
	s.told = true
	s.mu.Unlock()
	s.ticks.Close()
	return s.outcome()
}

// outcome panics as the work did. It is called after the end.
func (s *stream[T]) outcome() error {
	if s.panic != nil {
		panic(s.panic)
	}
	return s.err
}

// await waits for the reader, but no longer than the caller's context.
func (s *stream[T]) await(ctx context.Context) {
	select {
	case <-s.over:
	case <-ctx.Done():
		s.ticks.Close()
	}
}

// afterwards is the end for a reader that comes when no tick is offered any more.
func (s *stream[T]) afterwards() (any, error) {
	s.mu.Lock()
	told, left := s.told, len(s.pieces)
	s.told = true
	s.mu.Unlock()
	switch {
	case told:
		return nil, io.EOF
	case left > 0 && s.panic == nil && s.err == io.EOF: //nolint:errorlint // nobody wraps it
		return nil, s.cause()
	default:
		return nil, s.outcome()
	}
}
