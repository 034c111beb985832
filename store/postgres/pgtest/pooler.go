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

	"github.com/jackc/pgx/v5"
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
	program, err := findPooler()
	if err != nil {
		tb.Skip("PgBouncer is needed for this test:", err)
	}
	p, err := s.pool(program, mode)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		p.running.end(syscall.SIGTERM)
		if err := os.RemoveAll(p.folder); err != nil {
			tb.Error(err)
		}
	})
	return p
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

func (s *Server) pool(program, mode string) (*Pooler, error) {
	folder, err := os.MkdirTemp("", "pgb")
	if err != nil {
		return nil, err
	}
	p := &Pooler{folder: folder}
	config := filepath.Join(folder, "pgbouncer.ini")
	content := fmt.Appendf(nil, poolerConfig, s.folder, port, folder, poolerPort, mode)
	err = os.WriteFile(config, content, 0o644) //nolint:gosec // another account reads it
	if err == nil {
		err = s.as.own(folder)
	}
	if err == nil {
		p.running, err = startProcess(s.as, nil, folder, program, config)
	}
	if err == nil {
		err = p.running.until(p.answers)
	}
	if err != nil {
		if p.running != nil {
			p.running.end(syscall.SIGKILL)
		}
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	return p, nil
}

func (p *Pooler) answers() error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, p.DSN("postgres"))
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// DSN returns the connection string of a database through the pooler.
func (p *Pooler) DSN(database string) string { return dsn(p.folder, poolerPort, database) }
