package watchdogadk

import "context"

// A pipe hands the pieces of a stream from the goroutine of its source to that of its reader. The source waits until
// the reader has done with a piece, as one that calls yield does, so that nothing goes on behind the reader's back; but
// the reader never waits for a source whose context has ended.
type pipe[T any] struct {
	pieces chan T
	more   chan bool // whether the reader wants another piece
}

func newPipe[T any]() *pipe[T] { return &pipe[T]{pieces: make(chan T), more: make(chan bool, 1)} }

// send hands over a piece. It returns false if the reader wants no more, or ctx has ended.
func (p *pipe[T]) send(ctx context.Context, piece T) (more bool) {
	if ctx.Err() != nil {
		return false
	}
	select {
	case p.pieces <- piece:
	case <-ctx.Done():
		return false
	}
	select {
	case more = <-p.more:
		return more
	case <-ctx.Done():
		return false
	}
}

// read gives each piece to the reader until the source has ended, which it tells by ended, or the reader wants no more.
func read[T, E any](p *pipe[T], ended <-chan E, reader func(T) bool) (end E, readAll bool) {
	for {
		select {
		case piece := <-p.pieces:
			more := reader(piece)
			if p.more <- more; !more {
				return end, false
			}
		case end = <-ended:
			return end, true
		}
	}
}
