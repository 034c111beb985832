package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
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
	copied           *template // nil for a standby, and when it is closed
	databases        atomic.Int64
}

// Start starts a server and closes it when the test ends. It skips the test if PostgreSQL is not installed, and fails
// it if the server does not start.
func Start(tb testing.TB, options Options) *Server {
	tb.Helper()
	s, err := New(tb.Context(), options)
	needs(tb, "PostgreSQL", err)
	atEnd(tb, s.Close)
	return s
}

// needs skips a test if what it needs is not installed, and fails it if that does not start.
func needs(tb testing.TB, what string, err error) {
	tb.Helper()
	switch {
	case errors.Is(err, ErrNotInstalled):
		tb.Skip(what+" is needed for this test:", err)
	case err != nil:
		tb.Fatal(err)
	}
}

// atEnd has something closed when the test ends.
func atEnd(tb testing.TB, closing func() error) {
	tb.Helper()
	tb.Cleanup(func() {
		if err := closing(); err != nil {
			tb.Error(err)
		}
	})
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
	if err := s.start(options, func() error { return s.createCluster(ctx) }); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// start makes a folder with a cluster, and starts the server in it.
func (s *Server) start(options Options, create func() error) (err error) {
	// The path of a socket may have about a hundred bytes; tb.TempDir is too long.
	if s.folder, err = os.MkdirTemp("", "pg"); err != nil {
		return err
	}
	s.environment = options.Environment
	s.arguments = []string{"-D", s.data(), "-k", s.folder, "-h", "", "-p", port}
	fsync := "fsync=off"
	if options.Fsync {
		fsync = "fsync=on"
	}
	for _, setting := range append([]string{fsync, "log_line_prefix="}, options.Settings...) {
		s.arguments = append(s.arguments, "-c", setting)
	}
	if err := create(); err != nil {
		return err
	}
	return s.Restart()
}

func (s *Server) data() string { return clusterIn(s.folder) }

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
	return execute(ctx, s.DSN("postgres"), statement)
}

func execute(ctx context.Context, dsn, statement string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
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
	signal := syscall.SIGINT
	if immediate {
		signal = syscall.SIGQUIT
	}
	s.end(signal)
}

// Kill kills the server's main process, if it runs, and waits until the other processes have ended. This is how a
// crash looks.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

func (s *Server) end(signal os.Signal) {
	if s.running != nil {
		s.running.end(signal)
		s.running = nil
		waitForProcesses(s.data())
	}
}

// Close stops the server and deletes its cluster. Closing again does nothing.
func (s *Server) Close() error {
	s.Stop(true)
	if err := errors.Join(os.RemoveAll(s.folder), s.leaveTemplate()); err != nil {
		return fmt.Errorf("delete the cluster: %w", err)
	}
	return nil
}

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
	needs(tb, "PostgreSQL", s.err)
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

// ErrNotInstalled says that PostgreSQL is not installed or cannot run here. [New] wraps it.
var ErrNotInstalled = errors.New("not installed")

// find returns the folder with the server's programs. It takes initdb and postgres from one folder, so that they have
// one version.
func find(ctx context.Context) (folder string, err error) {
	for _, folder := range folders(ctx) {
		if isProgram(filepath.Join(folder, "initdb")) && isProgram(filepath.Join(folder, "postgres")) {
			return folder, nil
		}
	}
	return "", fmt.Errorf("%w: initdb and postgres are in none of the usual places: "+
		"install the server (Debian: postgresql) or put them in PATH", ErrNotInstalled)
}

// folders lists the folders of PATH, those where Debian and PostgreSQL itself install, and the one of pg_config.
func folders(ctx context.Context) []string {
	all := filepath.SplitList(os.Getenv("PATH"))
	versions, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is right
	slices.SortFunc(versions, func(a, b string) int { return version(b) - version(a) })
	all = append(append(all, versions...), "/usr/local/bin", "/usr/local/pgsql/bin", "/opt/homebrew/bin")
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		all = append(all, strings.TrimSpace(string(out)))
	}
	return all
}

func version(folder string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(folder))) // 0 sorts as the oldest
	return n
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 && runtime.GOOS != "windows"
}

// A template is a cluster as initdb creates it. The servers of a process are copies, which are made in a tenth of the
// time. The last server that is closed deletes it.
//
// Rejected: one for all processes, in a folder of the user. It would stay there when all is closed.
type template struct {
	folder string
	users  int // servers that are not closed
}

// templates are those in use, by the folder of the programs that made them.
var templates = struct {
	sync.Mutex
	by map[string]*template
}{by: map[string]*template{}}

// createCluster creates the cluster of a server, and the template if there is none.
func (s *Server) createCluster(ctx context.Context) error {
	templates.Lock()
	defer templates.Unlock()
	t := templates.by[s.programs]
	if t == nil {
		t = &template{}
		if err := s.makeTemplate(ctx, t); err != nil {
			return errors.Join(err, os.RemoveAll(t.folder))
		}
		templates.by[s.programs] = t
	}
	t.users++
	s.copied = t
	return s.create(ctx, s.folder, "cp", "-Rp", clusterIn(t.folder), s.data())
}

func (s *Server) makeTemplate(ctx context.Context, t *template) (err error) {
	if t.folder, err = os.MkdirTemp("", "pg"); err != nil {
		return err
	}
	return s.create(ctx, t.folder, filepath.Join(s.programs, "initdb"), "-D", clusterIn(t.folder), "--no-sync",
		"-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-locale")
}

// leaveTemplate deletes the template of a server if no other one uses it.
func (s *Server) leaveTemplate() error {
	templates.Lock()
	defer templates.Unlock()
	t := s.copied
	if t == nil {
		return nil
	}
	s.copied = nil
	if t.users--; t.users > 0 {
		return nil
	}
	delete(templates.by, s.programs)
	return os.RemoveAll(t.folder)
}

func clusterIn(folder string) string { return filepath.Join(folder, "data") }

// create has a program create a cluster in a folder.
func (s *Server) create(ctx context.Context, folder, program string, arguments ...string) error {
	if err := s.as.own(folder); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, arguments...)
	cmd.Dir, cmd.SysProcAttr = folder, s.as.attributes()
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(program), err, output)
	}
	return nil
}
