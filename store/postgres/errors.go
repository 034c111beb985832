package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed62658d38/watchdog/internal/storerows"
	"github.com/seed62658d38/watchdog/session"
)

var (
	// ErrClosed says that the [Store] was closed. Every call of a closed one wraps it.
	ErrClosed = storerows.ErrClosed
	// ErrNewerSchema says that a newer version of this package has migrated the database. [Open] and [New] wrap it.
	ErrNewerSchema = storerows.ErrNewerSchema
	// ErrReadOnly says that the [Store] is of a [Config] that is ReadOnly. Every call that writes wraps it, and changes
	// nothing.
	ErrReadOnly = storerows.ErrReadOnly
	// ErrForeignTable says that the schema has a table named events, or by a name that begins with watchdog_, that this
	// package cannot use. [Open] and [New] wrap it. The error names the columns that are missing or in the way. Nothing
	// was written.
	ErrForeignTable = errors.New(
		"its tables cannot hold watchdog events: change them, or keep the events in a schema of their own")
	// ErrNoNotifications says that the server's notifications do not arrive, as behind a pooler in transaction mode.
	// [Store.Listen] wraps it.
	ErrNoNotifications = errors.New("the server's notifications do not arrive, " +
		"probably because of a pooler in transaction mode: connect to the server itself, or poll with Ended")
)

// errNothingStored says that a Transact failed before its commit.
var errNothingStored = errors.New("nothing was stored")

// The SQLSTATE codes of transactions that the server rolled back so that others could go on.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
)

// lockNotAvailable is the SQLSTATE code of a statement that waited for a lock for longer than lock_timeout.
const lockNotAvailable = "55P03"

// lockedError wraps [session.ErrLocked], too, if a lock was not to be had in time.
func lockedError(err error) error {
	if codeOf(err) == lockNotAvailable {
		return fmt.Errorf("%w: %w", session.ErrLocked, err)
	}
	return err
}

// isRefusal reports whether the server refuses a row for what is in it, or because of a trigger of the host's.
func isRefusal(err error) bool {
	code := codeOf(err)
	return code != "" && slices.Contains([]string{"22", "23", "27", "38", "39", "44", "P0"}, code[:2])
}

// advice says what a person can do about an error of the server, by SQLSTATE.
var advice = map[string]string{
	"22001": "the column of the host's table is shorter than the value: widen it",
	"28000": "the server does not let this user in: check the user and pg_hba.conf",
	"28P01": "check the user and the password",
	"3D000": "create the database, or name another",
	"3F000": "create the schema, or name another in Config.Schema",
	"42501": "grant the role what it lacks, or let a role that may create tables open the database once",
	"42703": "the table was changed: open the store again to see what is missing",
	"42P01": "a table was dropped: open the store again to create it",
	"53100": "make room on the server's disk; the last write was not stored",
	"53200": "the server is out of memory: try again",
	"53300": "the server has no connection left: raise max_connections, or lower pool_max_conns if there are many pools",
	"55P03": "another transaction holds a lock for longer than lock_timeout allows: end it, or try again",
	"57014": "the server ended the statement: statement_timeout is too short, or somebody cancelled it",
	"57P01": "the server is shutting down: try again when it is up",
	"57P02": "the server crashed and is restarting: try again",
	"57P03": "the server is starting or stopping: try again",
}

// addressOf returns the database and the hosts of a pool, without its user and password, and whether there are several
// hosts.
func addressOf(config *pgxpool.Config) (address string, several bool) {
	c := config.ConnConfig
	hosts := []string{hostOf(c.Host, c.Port)}
	for _, f := range c.Fallbacks { // the same host without TLS is one, too
		if host := hostOf(f.Host, f.Port); !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return c.Database + " " + strings.Join(hosts, " or "), len(hosts) > 1
}

func hostOf(host string, port uint16) string {
	if strings.HasPrefix(host, "/") {
		return "in " + host
	}
	return "at " + net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// explain says in the error of a call in a connection why a write was refused, and which server it was connected to, if
// the pool has several hosts. The error of a failed connect names its hosts already.
func (s *Store) explain(ctx context.Context, conn *pgx.Conn, err error) error {
	if err == nil {
		return nil
	}
	forgetPrepared(conn)
	return s.nameServer(conn, s.explainRefusal(ctx, conn, err))
}

func (s *Store) nameServer(conn *pgx.Conn, err error) error {
	if err == nil || !s.severalHosts {
		return err
	}
	if server := conn.PgConn().Conn().RemoteAddr(); server != nil {
		return fmt.Errorf("server %s: %w", server, err)
	}
	return err
}

// do runs a call that Close waits for, and wraps its error.
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

// retryUndone repeats a call that the server has rolled back so that another transaction could go on. A database can
// be configured so that this happens at any time.
func retryUndone(ctx context.Context, call func(context.Context) error) error {
	const retries = 10
	err := call(ctx)
	for range retries {
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

// wrapError names the database, and says what a person can do about the error.
func (s *Store) wrapError(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	if failed := (*pgconn.ConnectError)(nil); errors.As(err, &failed) {
		err = fmt.Errorf("connect: %w", failed.Unwrap()) // a ConnectError has the whole configuration, with the password
	}
	if ctx.Err() != nil {
		return storerows.WrapError(doing, s.address, storerows.JoinContext(ctx, err), "")
	}
	return storerows.WrapError(doing, s.address, err, s.adviceFor(err))
}

func (s *Store) adviceFor(err error) string {
	if known := readerAdvice[codeOf(err)]; known != "" && s.readOnly {
		return known
	}
	if known := advice[codeOf(err)]; known != "" {
		return known
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT):
		return "no server listens there: start it, or check host and port"
	case isOnlyReadOnly(err):
		return "no host accepts writes: name the primary, or see where default_transaction_read_only is set"
	case pgconn.SafeToRetry(err):
		return "the connection broke before anything was written: try again when the server is up"
	case isBroken(err) && errors.Is(err, errNothingStored):
		return "the connection broke: try again when the server is up"
	case isBroken(err):
		return "the connection broke, and what was being written may be stored: try again when the server is up"
	default:
		return ""
	}
}

func isBroken(err error) bool {
	broken := []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.EPIPE, syscall.ECONNRESET}
	return slices.ContainsFunc(broken, func(one error) bool { return errors.Is(err, one) })
}
