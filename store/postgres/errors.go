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

	"github.com/seed62658d38/watchdog/store/internal/storeflow"
)

var (
	// ErrClosed says that the [Store] was closed. Every call of a closed one wraps it.
	ErrClosed = storeflow.ErrClosed
	// ErrNewerSchema says that a newer version of this package has migrated the database. [Open] and [New] wrap it.
	ErrNewerSchema = storeflow.ErrNewerSchema
	// ErrReadOnly says that the [Store] is of a [Config] that is ReadOnly. Every call that writes wraps it, and changes
	// nothing.
	ErrReadOnly = storeflow.ErrReadOnly
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

// The SQLSTATE codes of what the server rolled back so that others could go on, of a statement that waited for a lock
// for longer than lock_timeout, and of one that writes in a read-only transaction.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	lockNotAvailable     = "55P03"
	readOnlyTransaction  = "25006"
)

func lockedError(err error) error { return storeflow.Locked(codeOf(err) == lockNotAvailable, err) }

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

// addressOf returns the database and the hosts of a pool, without its user and password, and whether those are several.
func addressOf(config *pgxpool.Config) (address string, several bool) {
	c := config.ConnConfig
	hosts := []string{hostOf(c.Host, c.Port)}
	for _, f := range c.Fallbacks { // the same host without TLS is one, too
		hosts = append(hosts, hostOf(f.Host, f.Port))
	}
	hosts = slices.Compact(hosts)
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
	clear(preparedBy(conn)) // pgx forgets the statements that were sent together with the one that failed
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

func codeOf(err error) string {
	if err == nil { // as nearly always: errors.As needs an object
		return ""
	}
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
	advice := ""
	if ctx.Err() == nil {
		advice = s.adviceFor(err)
	}
	return storeflow.WrapError(doing, s.address, storeflow.JoinContext(ctx, err), advice)
}

func (s *Store) adviceFor(err error) string {
	switch code := codeOf(err); {
	case s.readOnly && readerAdvice[code] != "":
		return readerAdvice[code]
	case advice[code] != "":
		return advice[code]
	case errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT):
		return "no server listens there: start it, or check host and port"
	case strings.Contains(err.Error(), "read only connection"): // the string asks for a host that can write
		return "no host accepts writes: name the primary, or see where default_transaction_read_only is set"
	case pgconn.SafeToRetry(err):
		return "the connection broke before anything was written: try again when the server is up"
	case !slices.ContainsFunc(broken, func(one error) bool { return errors.Is(err, one) }):
		return ""
	case errors.Is(err, errNothingStored):
		return "the connection broke: try again when the server is up"
	default:
		return "the connection broke, and what was being written may be stored: try again when the server is up"
	}
}

// broken are the errors of a connection that broke.
var broken = []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.EPIPE, syscall.ECONNRESET}

// A read-only store has each of its transactions be read-only, so that the server refuses what would write.
//
// Rejected: default_transaction_read_only as a parameter of the connection, which a pooler refuses, or as a setting of
// its session, which a pooler gives to the next client.
var (
	settingsReadOnly = settings + `, pg_catalog.set_config('transaction_read_only', 'on', true)`
	beginReadOnly    = beginLimited + `; SET LOCAL transaction_read_only = on`
)

// readerAdvice is advice for a read-only store.
var readerAdvice = map[string]string{
	"42501": "grant the role SELECT on the tables",
	"42703": storeflow.OlderSchemaAdvice,
	"42P01": storeflow.OlderSchemaAdvice,
}

// selectWhyReadOnly returns whether the server is a standby, and what has set default_transaction_read_only, if it is.
const selectWhyReadOnly = `SELECT pg_catalog.pg_is_in_recovery(), coalesce((SELECT source FROM pg_catalog.pg_settings
		WHERE name {=} 'default_transaction_read_only' AND setting {=} 'on'), '')`

func whyReadOnly(row pgx.Row) (string, error) {
	var standby bool
	var setBy string
	err := row.Scan(&standby, &setBy)
	switch {
	case err != nil:
		return "", err
	case standby:
		return "it is a standby: name the primary, or all hosts with target_session_attrs=read-write", nil
	case setBy != "":
		return "default_transaction_read_only is on, by what pg_settings calls its source " + setBy +
			": set it to off there, or in the connection string", nil
	}
	return "its transaction is read-only", nil
}

// explainRefusal adds to the error of a refused write why the server refuses it, if that can be found out: a server can
// be demoted, and the setting changed, at any time.
func (s *Store) explainRefusal(ctx context.Context, conn *pgx.Conn, err error) error {
	if codeOf(err) != readOnlyTransaction {
		return err
	}
	why, failed := whyReadOnly(conn.QueryRow(ctx, s.qualify(selectWhyReadOnly), s.unprepared(nil)...))
	if failed != nil {
		return err
	}
	return fmt.Errorf("%w (%s)", err, why)
}
