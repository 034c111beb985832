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

// patience bounds what a server does, on a machine that is far too busy.
const timeout = time.Minute

const port = "5432"

// Options say how a server is started. The zero value is ready.
type Options struct {
	// Settings are the server's, as name=value, such as max_connections=10. They come after ours.
	Settings []string
	// Fsync has the server write to the disk as one in service does, for what is measured. Without it a crash of the machine, and only that, loses what was written.
	Fsync bool
}

// A Server is a PostgreSQL server with a cluster of its own. [New] and [Start] make one. Its methods are not for several goroutines at once, but for DSN and Database.
type Server struct {
	folder, programs string
	as               *account
	arguments        []string
	running          *process
	databases        atomic.Int64
}

// Start starts a server that is closed when the test ends. It skips the test, saying so, where PostgreSQL is not installed, and fails it where the server does not start.
func Start(tb testing.TB, options Options) *Server {
	tb.Helper()
	s, err := New(tb.Context(), options)
	switch {
	case errors.Is(err, ErrNotInstalled):
		tb.Skip("there is no PostgreSQL to test with:", err)
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

// New starts a server. The error wraps [ErrNotInstalled] where there is none to start. The context bounds the starting only. Close the server.
func New(ctx context.Context, options Options) (_ *Server, err error) {
	s := &Server{}
	if s.programs, err = find(ctx); err != nil {
		return nil, err
	}
	if s.as, err = unprivileged(); err != nil {
		return nil, err
	}
	// The path of a socket has room for a hundred bytes, which rules out the folder of a test.
	if s.folder, err = os.MkdirTemp("", "pg"); err != nil {
		return nil, err
	}
	s.arguments = s.settings(options)
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

// initialize makes the cluster.
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

// DSN is the connection string for a database of the server, as its superuser.
func (s *Server) DSN(database string) string { return dsn(s.folder, port, database) }

func dsn(folder, port, database string) string {
	return "postgres:///" + url.PathEscape(database) + "?" + url.Values{"host": {folder}, "port": {port}, "user": {"postgres"}}.Encode()
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

// Restart starts the server again, and stops it before if it runs. Sessions of before are ended.
func (s *Server) Restart() error {
	s.Stop(false)
	for began := time.Now(); ; {
		running, err := startProcess(s.as, s.folder, filepath.Join(s.programs, "postgres"), s.arguments...)
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

// leftovers says whether a server did not start because processes of one that was killed were not gone yet.
func leftovers(p *process) bool {
	select {
	case <-p.ended:
		return slices.ContainsFunc([]string{"still in use", "already exists"}, p.output.has)
	default:
		return false
	}
}

// Stop stops the server, if it runs, and waits until it has: at once, without so much as a checkpoint, or after it has ended its sessions.
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

// Kill ends the server, if it runs, as a crash does, and waits until all its processes have noticed.
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
