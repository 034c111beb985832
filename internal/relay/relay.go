// Package relay passes the output of a child process on to the host's destination: unchanged, in order, without loss,
// and at the speed of a pipe. The watcher of the child learns how many bytes flow and, if it asks, sees the bytes.
//
// The child writes into a pipe of this package. On Linux the pipe grows to 1 MiB if the child writes much at a time. If
// the destination is a pipe or /dev/null, Linux moves the pages with splice(2), and nobody reads them. If the watcher
// wants to see the bytes, tee(2) references the pages a second time, and the relay reads those. So it never has to
// write, and no write can block. For all other destinations the relay reads and writes 256 KiB at a time. For many
// writes of 64 bytes, splicing is a quarter slower than that; to a pipe it is as fast from 1 KiB on. There is no second
// way for small writes, because the child itself takes most of their time.
//
// The pipe and one buffer bound the memory: a slow destination slows the child. A child whose destination is a regular
// file can also get that itself: see [WatchFile], which takes every writer for the child.
//
// The package leaves a host's descriptors as they are: it neither makes them non-blocking nor resizes them. It uses a
// duplicate, so a host may close its own. If a reader closes its end, the host is not killed, even if that end was the
// host's standard output.
//
// The package starts no processes, and knows nothing about lines or silence.
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

var (
	// ErrReaderGone is wrapped by [Stream.Finish] if the destination's reader closed it. The child then gets SIGPIPE or
	// EPIPE, as it would without the relay, but one write later. That is not a failure of the child itself.
	ErrReaderGone = errors.New("the reader is gone")
	// ErrAbandoned is wrapped by [Stream.Finish] if the destination did not take the child's output in time.
	ErrAbandoned = errors.New("the reader does not read")
)

// A Config says where a stream goes and who watches it. The stream's goroutine calls all of it; [Stream.Finish] calls
// End if there is none.
type Config struct {
	// From, if not nil, is the side of a pseudo-terminal that the output is read from, which the stream closes. The child
	// has the other side, and the stream no pipe. Only on Unix.
	From *os.File
	// To is the destination. Nil discards the bytes. If it is an *os.File, the host may close it once the stream is
	// open. Another writer must not keep the bytes.
	To io.Writer
	// Seen, if not nil, is called with the size of every chunk from the child. Seen and Look must be quick, because the
	// stream waits for them, and must not call the stream.
	Seen func(n int)
	// Look, if not nil, gets the bytes after Seen and before they are passed on. It must not change or keep them.
	Look func(p []byte)
	// Full, if not nil, is called when the stream begins to write, or to wait for a destination that takes no more. It
	// must be quick and must not call the stream.
	Full func()
	// End, if not nil, is called once when nothing more will be passed on, before [Stream.Done] is closed. It must be
	// quick and must not call the stream.
	End func()
}

// A Stream passes on one output of one child. Only the goroutine that runs the child may call [Stream.Start] and
// [Stream.Finish]. All other methods are safe for concurrent use.
type Stream struct {
	cfg      Config
	in       *source
	out      *destination
	child    *os.File
	bytes    atomic.Int64
	started  bool // Start was called; started, finished and finishErr belong to the goroutine that runs the child
	finished bool // Finish was called

	mu           sync.Mutex
	blockedSince time.Time // zero if the stream does not wait for the destination
	stuck        bool      // in a Write that cannot be interrupted
	stopped      bool
	kept         bool // whoever holds the pipe open can go on writing

	done      chan struct{}
	err       error // why relaying ended, nil at the end of the output; written before done is closed
	finishErr error // what Finish returned
}

// Open makes the pipe of a stream. The caller must call [Stream.Finish], even if the child never starts.
func Open(cfg Config) (*Stream, error) {
	out, err := openDestination(cfg.To)
	if err != nil {
		return nil, fmt.Errorf("open the destination of output: %w", err)
	}
	in, child, err := cfg.open()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open a pipe for output: %w", err), out.close())
	}
	return &Stream{cfg: cfg, in: in, out: out, child: child, done: make(chan struct{})}, nil
}

func (c *Config) open() (in *source, child *os.File, err error) {
	if c.From != nil {
		in, err = terminalSource(c.From)
		return in, nil, err
	}
	return openSource()
}

// Child returns the end that the child writes to, nil if there is no pipe. The stream owns it, and [Stream.Start]
// closes it.
func (s *Stream) Child() *os.File { return s.child }

// Start begins to relay in a goroutine, and closes this process's copy of the child's end. The child must have its own
// copy by now.
func (s *Stream) Start() {
	if s.child != nil {
		_ = s.child.Close() // a pipe has nothing to flush
	}
	s.started = true
	go s.run()
}

// Bytes returns how many bytes the destination has taken.
func (s *Stream) Bytes() int64 { return s.bytes.Load() }

// Blocked reports whether the stream waits for its destination, and since when. Then the reader is slow; it
// does not mean that the child is silent. A write to a fast destination counts too, for as long as it takes.
func (s *Stream) Blocked() (since time.Time, blocked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.blockedSince, !s.blockedSince.IsZero()
}

// Done is closed when no more bytes will be passed on: at the end of the output, on an error, or when Finish gave up.
func (s *Stream) Done() <-chan struct{} { return s.done }

// Drain says that the child is gone. The stream still passes on what is in the pipe, but it does not wait for other
// processes that hold the pipe open. Drain does not wait: see [Stream.Done].
func (s *Stream) Drain() { s.in.drain() }

// Keep says that processes that hold the pipe open shall live on after [Stream.Finish]: what they write then is read
// and dropped, until the last of them closes the pipe or this process ends. That takes a goroutine. It does nothing
// after an error of the destination, which these processes see as ever. Call it before Finish.
func (s *Stream) Keep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = true
}

// Finish ends a stream whose child is gone. It passes on what is in the pipe, and gives the destination the time wait
// to take it; a stream that waits for a processor, and not for its destination, takes longer. It does not wait for
// other processes that hold the pipe open; they find it closed, unless [Stream.Keep] was called.
//
// Finish returns nil if all output was passed on. Otherwise it wraps [ErrReaderGone], [ErrAbandoned] or the error of
// the destination's Write. At the first error it closes the pipe, as os/exec does, so that the child stops writing. If
// the host's Write never returns, its goroutine is left behind and the error says so. After Finish no new Write begins.
// A second call returns the result of the first.
func (s *Stream) Finish(wait time.Duration) error {
	if !s.finished {
		s.finished = true
		s.finishErr = s.finish(wait)
	}
	return s.finishErr
}

func (s *Stream) finish(wait time.Duration) error {
	if !s.started {
		s.announce()
		err := errors.Join(s.in.close(), s.out.close())
		if s.child != nil {
			err = errors.Join(s.child.Close(), err)
		}
		return err
	}
	s.in.drain()
	if !s.awaitDone(wait) && s.stop() {
		return fmt.Errorf("pass output on: %w: given up after %v, and what it had not taken is lost; "+
			"its Write has not returned, and its goroutine is left behind", ErrAbandoned, wait)
	}
	<-s.done
	if errors.Is(s.err, errStopped) {
		return fmt.Errorf("pass output on: %w: given up after %v, and what it had not taken is lost",
			ErrAbandoned, wait)
	}
	return s.err
}

const (
	// busyBound is how much longer a stream may take that does not wait for its destination: on a busy machine it waits
	// for a processor.
	busyBound = 5 * time.Second
	// busyPause is how often it is looked at meanwhile.
	busyPause = 10 * time.Millisecond
)

// awaitDone waits until the stream is done, and reports whether it is in time.
func (s *Stream) awaitDone(wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for late := time.Duration(0); ; late += busyPause {
		select {
		case <-s.done:
			return true
		case <-timer.C:
		}
		if _, blocked := s.Blocked(); blocked || late >= busyBound {
			return false
		}
		timer.Reset(busyPause)
	}
}

// stop tells the goroutine to end, and reports whether it is stuck in a Write.
func (s *Stream) stop() (stuck bool) {
	s.mu.Lock()
	s.stopped = true
	stuck = s.stuck
	kept := s.kept
	s.mu.Unlock()
	s.out.interrupt()
	if stuck && !kept {
		_ = s.in.close() // other writers find the pipe closed
	}
	return stuck
}

// errStopped ends relaying after [Stream.Finish] gave up.
var errStopped = errors.New("stopped")

// A destination is where a stream goes. Only interrupt may be called outside the stream's goroutine.
type destination struct {
	w             io.Writer
	interruptible bool     // interrupt ends a Write that waits
	canSplice     bool     // splice(2) can write to the file
	isNull        bool     // the file is /dev/null
	file          *os.File // the duplicate of the host's, or nil
	wake          *os.File // a write to it ends a wait for the file, or nil
}

func openDestination(to io.Writer) (*destination, error) {
	switch to := to.(type) {
	case nil:
		return openDiscard(), nil
	case *os.File:
		return openFile(to)
	}
	return &destination{w: to}, nil
}

// interrupt ends a wait for the destination if possible.
func (d *destination) interrupt() {
	if d.wake != nil {
		_, _ = d.wake.Write([]byte{1, 0, 0, 0, 0, 0, 0, 1}) // an eventfd takes 8 bytes; fails only if closed
	}
	if d.file != nil {
		_ = d.file.SetWriteDeadline(time.Unix(1, 0)) // a blocking file does not support it
	}
}

func (d *destination) close() error {
	if d.wake != nil {
		_ = d.wake.Close() // it has nothing to flush
	}
	if d.file != nil {
		return d.file.Close()
	}
	return nil
}
