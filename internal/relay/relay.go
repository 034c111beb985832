// Package relay passes what a child process writes on to where the host wants it: unchanged, in order, none lost, and at
// the speed of a pipe. Whoever watches the child is told that bytes flowed and, where it asks for them, sees them.
//
// The child writes into a pipe of ours, of 1 MiB on Linux once much comes at a time. Where the destination is a pipe or /dev/null, Linux moves
// the pages from the one to the other by splice(2), and nobody reads them; what is to be looked at is read from a
// second reference to the pages, by tee(2), so that nothing is ever written that could block. Everywhere else 256 KiB
// at a time are read and written. Splicing is a quarter slower than that for a flood of writes of 64 bytes, and to a pipe as fast
// from 1 KiB on: as the time of such a flood is the child's own, there is no second way for it.
//
// Memory is bounded by the pipe and one buffer: a destination that is slow slows the child. A destination that is a
// regular file needs no relay, the child can be given the file itself: see [WatchFile].
//
// A host's descriptors are left as they are, neither made non-blocking nor resized; the relay works on a duplicate,
// so that a host may close its own. A reader that closed its end kills no host, not even where it was that of
// standard output.
//
// The package starts no processes, and knows nothing of lines or of silence.
package relay

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// The sizes of what is between the child and its reader, in bytes.
const (
	pipeSize = 1 << 20
	bufSize  = 256 << 10
)

// The errors of a stream.
var (
	// ErrReaderGone is wrapped by what [Stream.Finish] returns where whoever read the destination closed it. The child was told in the way it would have
	// been without the relay, by SIGPIPE or EPIPE, though one write later: this is no failure of its own.
	ErrReaderGone = errors.New("the reader is gone")
	// ErrAbandoned is wrapped by what [Stream.Finish] returns where the destination did not take in time what the child had written.
	ErrAbandoned = errors.New("the reader does not read")
)

// errStopped ends the relaying after [Stream.Finish] gave up.
var errStopped = errors.New("stopped")

// A Config says where a stream goes and who watches it.
type Config struct {
	// To is where the bytes go. Nil discards them. An *os.File may be closed by the host once the stream is open. Another writer is called
	// from the stream's goroutine; it must not keep what it is given.
	To io.Writer
	// Seen, where set, is called with the number of bytes of every chunk that was taken from the child. Both functions are called from the stream's goroutine, which
	// waits for them: they must be quick, and must not call the stream.
	Seen func(n int)
	// Look, where set, is given the bytes themselves before they are passed on, after Seen. It must neither change nor keep them.
	Look func(p []byte)
}

// A Stream is one output of one child on its way. [Stream.Start] and [Stream.Finish] belong to the goroutine that runs the child; everything else is
// safe for concurrent use.
type Stream struct {
	cfg   Config
	in    *source
	out   *sink
	child *os.File
	began bool // by Start; it and finished belong to the child's owner
	over  bool // by Finish
	bytes atomic.Int64

	mu      sync.Mutex
	waiting time.Time // since when the destination takes nothing; zero while it does
	stuck   bool      // in a Write that nobody can end
	stopped bool

	done chan struct{}
	err  error // why relaying ended, nil at the end of the output; written before done is closed
	end  error // what Finish returned
}

// Open makes the pipe of a stream. Every stream has to be finished, also one whose child was never started.
func Open(cfg Config) (*Stream, error) {
	out, err := openSink(cfg.To)
	if err != nil {
		return nil, fmt.Errorf("open the destination of output: %w", err)
	}
	in, child, err := openSource()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open a pipe for output: %w", err), out.close())
	}
	return &Stream{cfg: cfg, in: in, out: out, child: child, done: make(chan struct{})}, nil
}

// Child is the end for the child to write to. It is the stream's, and closed by [Stream.Start].
func (s *Stream) Child() *os.File { return s.child }

// Start begins to relay, in one goroutine, and closes this process's copy of the child's end: the child has to have its own by now.
func (s *Stream) Start() {
	_ = s.child.Close() // a pipe has nothing to flush
	s.began = true
	go s.run()
}

// Bytes is how much was passed on so far.
func (s *Stream) Bytes() int64 { return s.bytes.Load() }

// Blocked says whether the stream waits for its destination, and since when that has taken nothing: then it is the reader who is slow, and not the child
// that is silent. A write to a destination that is not slow shows as well, for as long as it takes.
func (s *Stream) Blocked() (since time.Time, blocked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting, !s.waiting.IsZero()
}

// Done is closed when nothing more will be passed on: all of the output was, or relaying failed or was given up.
func (s *Stream) Done() <-chan struct{} { return s.done }

// Drain says that the child is gone: what is in the pipe is still passed on, and other processes that hold the pipe are not waited for. It does not wait: see
// [Stream.Done].
func (s *Stream) Drain() { s.in.drain() }

// Finish ends a stream whose child is gone: what is in the pipe is still passed on, and for that the destination has the time wait. Other
// processes that hold the pipe are not waited for, and find it closed; where a pipe cannot be looked into without waiting (Windows), they are, for as long
// as wait.
//
// It returns nil after all of the output was passed on, and otherwise why it was not: [ErrReaderGone], [ErrAbandoned] or what the destination's Write
// returned. The pipe is closed at the first error, as os/exec does it, so that the child does not write on to nobody. A Write of the host's that never
// returns cannot be ended: its goroutine is left behind and the error says so. No other is begun once Finish returned. A second call returns what the first did.
func (s *Stream) Finish(wait time.Duration) error {
	if !s.over {
		s.over = true
		s.end = s.finish(wait)
	}
	return s.end
}

func (s *Stream) finish(wait time.Duration) error {
	if !s.began {
		close(s.done)
		return errors.Join(s.child.Close(), s.in.close(), s.out.close())
	}
	s.in.drain()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-s.done:
	case <-timer.C:
		if s.stop() {
			return fmt.Errorf("pass output on: %w: given up after %v, and what it had not taken is lost; its Write has not returned, and its goroutine is left behind", ErrAbandoned, wait)
		}
		<-s.done
	}
	if errors.Is(s.err, errStopped) {
		return fmt.Errorf("pass output on: %w: given up after %v, and what it had not taken is lost", ErrAbandoned, wait)
	}
	return s.err
}

// stop has the goroutine end as soon as it can, and says whether it cannot.
func (s *Stream) stop() (stuck bool) {
	s.mu.Lock()
	s.stopped = true
	stuck = s.stuck
	s.mu.Unlock()
	s.out.interrupt()
	if stuck || !s.in.drains() {
		_ = s.in.close() // for those who still write to it; and a read that waits ends
	}
	return stuck
}
