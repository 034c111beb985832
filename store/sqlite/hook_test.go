package sqlite_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/store/sqlite"
)

// hostDatabase opens a host's database, in WAL mode and with 16 connections.
func hostDatabase(tb testing.TB, file string) *sql.DB {
	tb.Helper()
	db := openPlain(tb, file, "busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)")
	db.SetMaxOpenConns(16)
	db.SetMaxIdleConns(16)
	return db
}

// openPlain opens a database with only these pragmas.
func openPlain(tb testing.TB, file string, pragmas ...string) *sql.DB {
	tb.Helper()
	return openSource(tb, "file:"+file+"?"+url.Values{"_pragma": pragmas}.Encode())
}

// openOne opens a database with one connection.
func openOne(tb testing.TB, file string, pragmas ...string) *sql.DB {
	tb.Helper()
	db := openPlain(tb, file, pragmas...)
	db.SetMaxOpenConns(1)
	return db
}

// openHosted returns a store in a host's new database.
func openHosted(tb testing.TB) (*sqlite.Store, *sql.DB) {
	tb.Helper()
	db := openPlain(tb, newFile(tb))
	return newStore(tb, db), db
}

// openBeside opens a store in a new file, and that as another program.
func openBeside(tb testing.TB) (*sqlite.Store, *sql.DB) {
	tb.Helper()
	file := newFile(tb)
	return openAt(tb, file), openPlain(tb, file, "busy_timeout(10000)")
}

// newStore returns a store in a host's database, and closes it when the test ends.
func newStore(tb testing.TB, db *sql.DB) *sqlite.Store {
	tb.Helper()
	return newStoreWith(tb, db, sqlite.Config{})
}

func newStoreWith(tb testing.TB, db *sql.DB, cfg sqlite.Config) *sqlite.Store {
	tb.Helper()
	s, err := cfg.New(tb.Context(), db)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, s.Close()) })
	return s
}

func mustExec(tb testing.TB, db *sql.DB, statements ...string) {
	tb.Helper()
	for _, statement := range statements {
		require.NoError(tb, second(db.ExecContext(tb.Context(), statement)))
	}
}

// queryAll returns all values of a query as text, row by row.
func queryAll(tb testing.TB, db *sql.DB, query string) (values []string) {
	tb.Helper()
	rows, err := db.QueryContext(tb.Context(), query)
	require.NoError(tb, err)
	defer rows.Close()
	columns, _ := rows.Columns()
	for rows.Next() {
		row, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		require.NoError(tb, rows.Scan(into...))
		for _, value := range row {
			if !value.Valid {
				value.String = "NULL"
			}
			values = append(values, value.String)
		}
	}
	require.NoError(tb, rows.Err())
	return values
}

// hookedDatabase opens a database whose driver calls before ahead of every statement. The statement fails if before
// does. The driver implements only what it must: no contexts, and no execution without preparation.
func hookedDatabase(tb testing.TB, file string, before func(statement string) error) *sql.DB {
	tb.Helper()
	base := openPlain(tb, file)
	db := sql.OpenDB(hook{base.Driver(), "file:" + file, before})
	tb.Cleanup(func() { db.Close() })
	return db
}

type hook struct {
	base   driver.Driver
	source string
	before func(string) error
}

func (h hook) Connect(context.Context) (driver.Conn, error) {
	conn, err := h.base.Open(h.source)
	return hookedConn{conn, h.before}, err
}

func (h hook) Driver() driver.Driver { return h.base }

type hookedConn struct {
	driver.Conn
	before func(string) error
}

func (c hookedConn) Prepare(statement string) (driver.Stmt, error) {
	prepared, err := c.Conn.Prepare(statement)
	return hookedStmt{prepared, statement, c.before}, err
}

type hookedStmt struct {
	driver.Stmt
	statement string
	before    func(string) error
}

func (s hookedStmt) Exec(arguments []driver.Value) (driver.Result, error) {
	if err := s.before(s.statement); err != nil {
		return nil, err
	}
	return s.Stmt.Exec(arguments) //nolint:staticcheck // the test is about the old interface
}

func openSource(tb testing.TB, source string) *sql.DB {
	tb.Helper()
	db, err := sql.Open("sqlite", source)
	require.NoError(tb, err)
	tb.Cleanup(func() { db.Close() })
	return db
}
