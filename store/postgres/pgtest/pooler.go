package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

const poolerPort = "6432"

// The modes of a [Pooler].
const (
	// SessionMode gives each client a server connection until it disconnects.
	SessionMode = "session"
	// TransactionMode gives a server connection to the next client after each transaction.
	TransactionMode = "transaction"
)

// A Pooler is PgBouncer in front of a server.
type Pooler struct {
	folder  string
	running *process
}

// StartPooler starts a pooler with two server connections for each database. The pooler is stopped when the test
// ends. If PgBouncer is not installed, StartPooler skips the test.
func StartPooler(tb testing.TB, s *Server, mode string) *Pooler {
	tb.Helper()
	p, err := s.pool(mode)
	needs(tb, "PgBouncer", err)
	atEnd(tb, p.close)
	return p
}

func (p *Pooler) close() error {
	if p.running != nil {
		p.running.end(syscall.SIGTERM)
	}
	return os.RemoveAll(p.folder)
}

// findPooler looks in PATH and in Debian's folder.
func findPooler() (string, error) {
	if program, err := exec.LookPath("pgbouncer"); err == nil {
		return program, nil
	}
	const debian = "/usr/sbin/pgbouncer"
	if isProgram(debian) {
		return debian, nil
	}
	return "", fmt.Errorf("%w: pgbouncer is in none of the usual places: install it (Debian: pgbouncer) or put it in PATH",
		ErrNotInstalled)
}

const poolerConfig = `[databases]
* = host=%[1]s port=%[2]s user=postgres
[pgbouncer]
unix_socket_dir = %[3]s
listen_port = %[4]s
auth_type = any
pool_mode = %[5]s
default_pool_size = 2
max_client_conn = 200
server_idle_timeout = 1
`

func (s *Server) pool(mode string) (*Pooler, error) {
	program, err := findPooler()
	if err != nil {
		return nil, err
	}
	p := &Pooler{}
	if p.folder, err = os.MkdirTemp("", "pgb"); err != nil {
		return nil, err
	}
	config := filepath.Join(p.folder, "pgbouncer.ini")
	content := fmt.Appendf(nil, poolerConfig, s.folder, port, p.folder, poolerPort, mode)
	err = os.WriteFile(config, content, 0o644) //nolint:gosec // another account reads it
	if err == nil {
		err = s.as.own(p.folder)
	}
	if err == nil {
		p.running, err = startProcess(s.as, nil, p.folder, program, config)
	}
	if err == nil {
		err = p.running.until(func() error { return execute(context.Background(), p.DSN("postgres"), "SELECT 1") })
	}
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// DSN returns the connection string of a database through the pooler.
func (p *Pooler) DSN(database string) string { return dsn(p.folder, poolerPort, database) }
