package pgtest

import (
	"context"
	"errors"
	"sync"
	"testing"
)

// A Shared is a server that the tests of a package share: starting one takes longer than most tests. The zero value is
// ready to use. Its TestMain calls Close after the tests. Its methods are safe for concurrent use.
type Shared struct {
	once   sync.Once
	server *Server
	err    error
}

// DSN returns the connection string of a new and empty database. The first call starts the server. DSN skips the test
// if PostgreSQL is not installed, and fails it if the server does not start.
func (s *Shared) DSN(tb testing.TB) string {
	tb.Helper()
	s.once.Do(func() { s.server, s.err = New(context.Background(), Options{}) })
	switch {
	case errors.Is(s.err, ErrNotInstalled):
		tb.Skip("PostgreSQL is needed for this test:", s.err)
	case s.err != nil:
		tb.Fatal(s.err)
	}
	return s.server.DSN(s.server.Database(tb))
}

// Close ends the server, if a test has started it. No test may use it after that.
func (s *Shared) Close() error {
	s.once.Do(func() { s.err = errors.New("the shared server is closed") })
	if s.server == nil {
		return nil
	}
	return s.server.Close()
}
