package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// timeout limits every step of a server. Only a very busy machine needs it.
const timeout = time.Minute

const port = "5432"

// Options are the options of a server. The zero value is ready to use.
type Options struct {
	// Settings are settings of the server, such as max_connections=10. They override those of this package.
	Settings []string
	// Fsync makes the server sync its writes to disk as in production, for benchmarks. Without it a crash of the
	// machine, and only that, loses data.
	Fsync bool
	// Environment are variables of the server's process beside those of this one, such as LD_PRELOAD=/lib/fake.so.
	Environment []string
}

// A Server is a PostgreSQL server with a cluster of its own. [New] and [Start] return one. Of its methods only DSN
// and Database are safe for concurrent use.
type Server struct {
	folder, programs string
	as               *account
	arguments        []string
	environment      []string
	running          *process
	databases        atomic.Int64
}

// Start starts a server and closes it when the test ends. It skips the test if PostgreSQL is not installed, and fails
// it if the server does not start.
func Start(tb testing.TB, options Options) *Server {
	tb.Helper()
	s, err := New(tb.Context(), options)
	switch {
	case errors.Is(err, ErrNotInstalled):
		tb.Skip("PostgreSQL is needed for this test:", err)
	case err != nil:
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// New starts a server. The error wraps [ErrNotInstalled] if there is none to start. The context applies to the start
// only. The caller must close the server.
func New(ctx context.Context, options Options) (_ *Server, err error) {
	s := &Server{}
	if s.programs, err = find(ctx); err != nil {
		return nil, err
	}
	if s.as, err = unprivileged(); err != nil {
		return nil, err
	}
	// The path of a socket may have about a hundred bytes; tb.TempDir is too long.
	if s.folder, err = os.MkdirTemp("", "pg"); err != nil {
		return nil, err
	}
	s.arguments, s.environment = s.settings(options), options.Environment
	if err = s.initialize(ctx); err == nil {
		err = s.Restart()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Server) settings(options Options) []string {
	fsync := "fsync=off"
	if options.Fsync {
		fsync = "fsync=on"
	}
	arguments := []string{"-D", s.data(), "-k", s.folder, "-h", "", "-p", port}
	for _, setting := range append([]string{fsync, "log_line_prefix="}, options.Settings...) {
		arguments = append(arguments, "-c", setting)
	}
	return arguments
}

func (s *Server) data() string { return filepath.Join(s.folder, "data") }

// initialize creates the cluster.
func (s *Server) initialize(ctx context.Context) error {
	if err := s.as.own(s.folder); err != nil {
		return err
	}
	initdb := exec.CommandContext(ctx, filepath.Join(s.programs, "initdb"),
		"-D", s.data(), "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")
	initdb.Dir, initdb.SysProcAttr = s.folder, s.as.attributes()
	if output, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, output)
	}
	return nil
}

// DSN returns the connection string of a database, for the superuser.
func (s *Server) DSN(database string) string { return dsn(s.folder, port, database) }

func dsn(folder, port, database string) string {
	parameters := url.Values{"host": {folder}, "port": {port}, "user": {"postgres"}}
	return "postgres:///" + url.PathEscape(database) + "?" + parameters.Encode()
}

// Database creates an empty database and returns its name.
func (s *Server) Database(tb testing.TB) string {
	tb.Helper()
	name := "test_" + strconv.FormatInt(s.databases.Add(1), 10)
	if err := s.exec(context.WithoutCancel(tb.Context()), "CREATE DATABASE "+name); err != nil {
		tb.Fatal(err)
	}
	return name
}

func (s *Server) exec(ctx context.Context, statement string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}

// Restart starts the server again. If it runs, Restart first stops it, which ends its connections.
func (s *Server) Restart() error {
	s.Stop(false)
	for began := time.Now(); ; {
		running, err := startProcess(s.as, s.environment, s.folder, filepath.Join(s.programs, "postgres"), s.arguments...)
		if err != nil {
			return err
		}
		s.running = running
		err = running.until(func() error { return s.exec(context.Background(), "SELECT 1") })
		if err == nil || time.Since(began) > timeout || !leftovers(running) {
			return err
		}
	}
}

// leftovers reports whether a server did not start because processes of a killed one still run.
func leftovers(p *process) bool {
	select {
	case <-p.ended:
		return slices.ContainsFunc([]string{"still in use", "already exists"}, p.output.has)
	default:
		return false
	}
}

// Stop stops the server, if it runs, and waits until its processes have ended. An immediate stop writes no
// checkpoint; another one first ends the connections.
func (s *Server) Stop(immediate bool) {
	if s.running == nil {
		return
	}
	signal := syscall.SIGINT
	if immediate {
		signal = syscall.SIGQUIT
	}
	s.running.end(signal)
	s.running = nil
	waitForProcesses(s.data())
}

// Kill kills the server's main process, if it runs, and waits until the other processes have ended. This is how a
// crash looks.
func (s *Server) Kill() {
	if s.running == nil {
		return
	}
	s.running.end(syscall.SIGKILL)
	s.running = nil
	waitForProcesses(s.data())
}

// Close stops the server and deletes its cluster. Closing again does nothing.
func (s *Server) Close() error {
	s.Stop(true)
	if err := os.RemoveAll(s.folder); err != nil {
		return fmt.Errorf("delete the cluster: %w", err)
	}
	return nil
}
