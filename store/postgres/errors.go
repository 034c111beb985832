package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The conditions of PostgreSQL that we have something to say about, by SQLSTATE.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
)

var advice = map[string]string{
	"22001": "the column is shorter than the value: the table is the host's, widen the column",
	"25006": "it takes no writes, it may be a standby: name the primary, or all hosts with target_session_attrs=read-write",
	"28000": "the server does not let this user in: look at the user and at pg_hba.conf",
	"28P01": "look at the user and the password",
	"3D000": "create the database, or name another",
	"3F000": "create the schema, or name another in Config.Schema",
	"42501": "grant the role what it lacks, or let a role that may create tables open the database once",
	"42703": "the table was changed: open the store again to see what is missing",
	"42P01": "a table was dropped: open the store again to have it made",
	"53100": "make room on the server's disk; what was written is not stored",
	"53200": "the server is out of memory: try again",
	"53300": "the server has no connection left: raise max_connections, or lower pool_max_conns where there are many pools",
	"55P03": "another transaction holds a lock for longer than lock_timeout allows: end it, or try again",
	"57014": "the server ended the statement: a statement_timeout is too short, or somebody cancelled it",
	"57P01": "the server is going down: try again when it is up",
	"57P02": "the server crashed and comes back: try again",
	"57P03": "the server is starting or stopping: try again",
}

// placeOf is where a pool connects to, as an error may tell.
func addressOf(config *pgxpool.Config) string {
	c := config.ConnConfig
	if len(c.Host) > 0 && c.Host[0] == '/' {
		return fmt.Sprintf("%s in %s", c.Database, c.Host)
	}
	return fmt.Sprintf("%s at %s", c.Database, net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))))
}

// do makes a call that Close waits for. It says in which database something failed and what can be done about it.
func (s *Store) do(ctx context.Context, doing string, call func(context.Context) error) error {
	err := ctx.Err()
	if err == nil {
		err = s.begin()
	}
	if err == nil {
		defer s.calls.Done()
		err = retryUndone(ctx, call)
	}
	return s.wrapError(ctx, doing, err)
}

// again repeats a call that the server has undone so that another one could go on, which a database can be configured to do at any time.
func retryUndone(ctx context.Context, call func(context.Context) error) error {
	const most = 10
	err := call(ctx)
	for range most {
		if code := codeOf(err); code != serializationFailure && code != deadlockDetected {
			return err
		}
		err = call(ctx)
	}
	return err
}

func codeOf(err error) string {
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return server.Code
	}
	return ""
}

func (s *Store) wrapError(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	if failed := (*pgconn.ConnectError)(nil); errors.As(err, &failed) {
		err = fmt.Errorf("connect: %w", failed.Unwrap()) // the type carries the whole configuration, with its password
	}
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		err = errors.Join(ended, err) // the server may call it "canceling statement"
	}
	if known := adviceFor(err); known != "" && ctx.Err() == nil {
		return fmt.Errorf("%s event database %s: %w (%s)", doing, s.address, err, known)
	}
	return fmt.Errorf("%s event database %s: %w", doing, s.address, err)
}

func adviceFor(err error) string {
	if known := advice[codeOf(err)]; known != "" {
		return known
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT):
		return "no server listens there: start it, or look at host and port"
	case pgconn.SafeToRetry(err):
		return "the connection broke before anything was written: try again when the server is up"
	case isBroken(err):
		return "the connection broke, and what was being written may be stored: try again when the server is up"
	default:
		return ""
	}
}

func isBroken(err error) bool {
	for _, broken := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.EPIPE, syscall.ECONNRESET} {
		if errors.Is(err, broken) {
			return true
		}
	}
	return false
}
