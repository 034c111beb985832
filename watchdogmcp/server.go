package watchdogmcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed62658d38/watchdog/stall"
)

// deathWait is how long an error waits for how a server ended that has closed its output.
const deathWait = 5 * time.Second

// errClosed is why Close ends a server.
var errClosed = errors.New("the connection was closed")

// A server is a command that was started.
type server struct {
	name  string
	grace time.Duration
	in    io.WriteCloser
	out   io.ReadCloser
	stop  context.CancelCauseFunc

	once    sync.Once
	closing chan struct{} // closed when Close was called
	done    chan struct{} // closed when no process is left

	result *stall.Result // this and err are written before done is closed
	err    error
}

func (s *server) await(c *stall.Command) {
	defer close(s.done)
	defer s.stop(nil)
	s.result, s.err = c.Wait()
	if errors.Is(s.err, errClosed) && !errors.Is(s.err, stall.ErrSurvivors) && !errors.Is(s.err, stall.ErrAlsoEnd) {
		s.err = nil
	}
}

func (s *server) close() (*stall.Result, error) {
	s.once.Do(func() {
		close(s.closing)
		_ = s.in.Close() // what is to know of it is how the server ends
		if !s.doneWithin(s.grace) {
			s.stop(errClosed)
		}
	})
	<-s.done
	return s.result, s.err
}

func (s *server) doneWithin(wait time.Duration) bool {
	select {
	case <-s.done:
		return true
	case <-time.After(wait):
		return false
	}
}

// lost returns why a stream of the server has ended: err itself after Close was called, or how the server ended.
func (s *server) lost(stream string, err error) error {
	select {
	case <-s.closing:
		return err // as from a connection that was closed: nothing has gone wrong
	default:
	}
	switch {
	case !s.doneWithin(deathWait):
		return fmt.Errorf("%w: server %q has closed its standard %s, but not exited", ErrServerGone, s.name, stream)
	case s.err == nil:
		return fmt.Errorf("%w: server %q exited by itself with status 0", ErrServerGone, s.name)
	}
	return fmt.Errorf("%w: server %q: %w", ErrServerGone, s.name, s.err)
}

// output is the server's standard output as a reader for one connection.
type output struct{ *server }

// Read returns why the server is gone in place of [io.EOF].
func (o output) Read(b []byte) (int, error) {
	n, err := o.out.Read(b)
	if n == 0 && err != nil {
		err = o.lost("output", err)
	}
	return n, err
}

// Close ends the server.
func (o output) Close() error {
	_, err := o.close()
	return err
}

// input is the server's standard input as a writer for one connection.
type input struct{ *server }

// Write returns why the server is gone in place of EPIPE. If no process of it is left, it takes what nobody reads any
// more: the SDK closes a connection at the first error of a write, and would then not read from the output how the
// server ended.
func (i input) Write(b []byte) (int, error) {
	n, err := i.in.Write(b)
	if err == nil {
		return n, nil
	}
	if err = i.lost("input", err); !errors.Is(err, ErrServerGone) {
		return n, err
	}
	select {
	case <-i.done:
		return len(b), nil
	default:
		return n, err
	}
}

// Close does nothing: the Close of the output ends the server.
func (i input) Close() error { return nil }

// ErrServerGone says that a server has ended, or that the connection to it has, also because the server sent what is no
// message. It is wrapped by the error of a call of
// a tool that was under way then or comes later, and by what the connection of a [Transport] returns.
var ErrServerGone = errors.New("the MCP server is gone")

// gone names the server in the error of a call that has lost it, and returns any other error as it is.
func gone(session *mcp.ClientSession, tool string, err error) error {
	switch {
	case errors.Is(err, ErrServerGone): // a Transport said so, with how it ended
		return fmt.Errorf("call the tool %q: %w", tool, err)
	case isGone(err):
		return fmt.Errorf("call the tool %q of %s: %w: connect again: %w", tool, serverName(session), ErrServerGone, err)
	}
	return err
}

// isGone reports whether an error is one that the end of a connection gives, or a server that sends what is no message:
// the SDK ends the connection then.
func isGone(err error) bool {
	if noMessage := (*json.SyntaxError)(nil); errors.As(err, &noMessage) {
		return true
	}
	for _, end := range []error{
		mcp.ErrConnectionClosed, io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, syscall.EPIPE, syscall.ECONNRESET,
	} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

// serverName returns what a server calls itself.
func serverName(session *mcp.ClientSession) string {
	if hello := session.InitializeResult(); hello != nil && hello.ServerInfo != nil {
		return fmt.Sprintf("server %q", hello.ServerInfo.Name)
	}
	return "a server without a name"
}
