package watchdogmcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

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

func (s *server) isDone() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

func (s *server) doneWithin(wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-s.done:
		return true
	case <-timer.C:
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
	err = i.lost("input", err)
	if errors.Is(err, ErrServerGone) && i.isDone() {
		return len(b), nil
	}
	return n, err
}

// Close does nothing: the Close of the output ends the server.
func (i input) Close() error { return nil }
