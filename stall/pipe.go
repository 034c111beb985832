package stall

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
)

// Sizes in bytes.
const (
	// pipeSize is how much output a pipe holds before the command has to wait, as a pipe of Linux does.
	pipeSize = 64 << 10
	// lastSize is how much it holds once the command has ended: more than was on its way, in the pipe that the command
	// wrote to and in the buffer of the relay.
	lastSize = 2 << 20
)

// A pipe is one of the pipes between a host and a command.
type pipe interface {
	end()    // says that the command has ended: nothing waits for the host any more
	finish() // says that nothing passes through the pipe any more, or that the command was not started
}

// pipeOf returns the pipe that a stream of an exec.Cmd is, or nil.
func pipeOf(stream any) pipe {
	switch stream := stream.(type) {
	case inputReader:
		return stream.pipe
	case outputWriter:
		return stream.pipe
	}
	return nil
}

// An outputPipe holds output of a command for a host that reads it. All methods are safe for concurrent use.
//
// It is no pipe of the operating system, because that has a fixed size: at the end of a command somebody would have to
// wait for a host that does not read, or throw away what does not fit.
type outputPipe struct {
	mu       sync.Mutex
	changed  sync.Cond
	held     bytes.Buffer
	last     bool // the command has ended: no write waits any more
	finished bool // nothing more is written
	closed   bool // by the host
}

func newOutputPipe() *outputPipe {
	p := &outputPipe{}
	p.changed.L = &p.mu
	return p
}

// Read waits for output. It returns [io.EOF] when there will be no more.
func (p *outputPipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(b) > 0 && p.held.Len() == 0 && !p.finished && !p.closed {
		p.changed.Wait()
	}
	switch {
	case p.closed:
		return 0, fmt.Errorf("read the command's output: %w", os.ErrClosed)
	case len(b) == 0:
		return 0, nil
	}
	p.changed.Broadcast()
	return p.held.Read(b)
}

// Close drops what was not read, and what is still to come.
func (p *outputPipe) Close() error {
	p.change(func() { p.closed, p.held = true, bytes.Buffer{} })
	return nil
}

func (p *outputPipe) write(b []byte) (written int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		for p.room() == 0 && !p.last && !p.finished && !p.closed {
			p.changed.Wait()
		}
		if p.closed || p.finished {
			return written, io.ErrClosedPipe
		}
		n := min(p.room(), len(b)-written)
		p.held.Write(b[written : written+n])
		written += n
		p.changed.Broadcast()
		switch {
		case written == len(b):
			return written, nil
		case p.last:
			return written, io.ErrShortWrite
		}
	}
}

func (p *outputPipe) room() int {
	if p.last {
		return max(lastSize-p.held.Len(), 0)
	}
	return max(pipeSize-p.held.Len(), 0)
}

func (p *outputPipe) end()    { p.change(func() { p.last = true }) }
func (p *outputPipe) finish() { p.change(func() { p.finished = true }) }

// change changes the pipe, and has those who wait look at it again.
func (p *outputPipe) change(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	do()
	p.changed.Broadcast()
}

// An outputWriter is the end of an outputPipe that a command has as an output. It is comparable, so that a command can
// have it as both.
type outputWriter struct{ pipe *outputPipe }

// Write implements [io.Writer].
func (w outputWriter) Write(b []byte) (int, error) { return w.pipe.write(b) }

// An inputPipe passes on what a host writes to a command. It is a pipe of the operating system, which the command reads
// itself. All methods are safe for concurrent use.
type inputPipe struct {
	child, own *os.File
	close      func() error // of own, once
	ended      atomic.Bool  // the command has
}

func newInputPipe() (*inputPipe, error) {
	r, w, err := openPipe()
	if err != nil {
		return nil, err
	}
	return &inputPipe{child: r, own: w, close: sync.OnceValue(w.Close)}, nil
}

// openPipe makes a pipe that the host can write to without being ended by SIGPIPE. That is what an os.File does if it
// has the descriptor of standard output or standard error, which is free if the host closed its own.
func openPipe() (r, w *os.File, err error) {
	r, w, err = os.Pipe()
	if err != nil || !isStandard(w) {
		return r, w, err
	}
	defer w.Close() //nolint:errcheck // it was not used, and takes the descriptor until another one is found
	defer r.Close() //nolint:errcheck // as above
	return openPipe()
}

func isStandard(f *os.File) (is bool) {
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	err = raw.Control(func(fd uintptr) { is = fd <= 2 })
	return err == nil && is
}

// Write waits while the pipe is full, until the command has ended.
func (p *inputPipe) Write(b []byte) (int, error) {
	n, err := p.own.Write(b)
	if errors.Is(err, os.ErrClosed) && p.ended.Load() {
		err = fmt.Errorf("write to the command: it has ended: %w", syscall.EPIPE)
	}
	return n, err
}

// Close gives the command the end of its input.
func (p *inputPipe) Close() error { return p.close() }

func (p *inputPipe) end() { p.finish() }

// finish says that the command has ended, or that it was not started.
func (p *inputPipe) finish() {
	p.ended.Store(true)
	_ = p.Close()
	_ = p.child.Close() // it is closed already if the command was started
}

// An inputReader is the end of an inputPipe that a command has as its input.
type inputReader struct{ pipe *inputPipe }

// Read implements [io.Reader]. The command does not use it: it gets the file itself.
func (r inputReader) Read(b []byte) (int, error) { return r.pipe.child.Read(b) }

// errNotStarted keeps a copy of a command from being started.
var errNotStarted = errors.New("not started")

// hasExecPipes reports whether a method of [exec.Cmd] made a pipe for the command. Only package exec can close what
// such a pipe needs closed, in its Start and Wait, which are never called here.
//
// A file does not tell who made it, but package exec closes its own when a start fails. So a copy of the command fails
// to start. If the files were the host's, nothing was done; else they are of no use to it any more.
func hasExecPipes(cmd *exec.Cmd) bool {
	pipes := openPipes(cmd)
	if len(pipes) == 0 {
		return false
	}
	failing := *cmd
	failing.Err = errNotStarted
	_ = failing.Start() // returns Err
	return len(openPipes(cmd)) < len(pipes)
}

func openPipes(cmd *exec.Cmd) (pipes []*os.File) {
	for _, stream := range []any{cmd.Stdin, cmd.Stdout, cmd.Stderr} {
		f, ok := stream.(*os.File)
		if !ok || f == nil {
			continue
		}
		if is, err := f.Stat(); err == nil && is.Mode()&os.ModeNamedPipe != 0 {
			pipes = append(pipes, f)
		}
	}
	return pipes
}
