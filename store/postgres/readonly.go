package postgres

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/seed62658d38/watchdog/internal/storerows"
)

// A read-only store has each of its transactions be read-only, so that the server refuses what would write.
//
// Rejected: default_transaction_read_only as a parameter of the connection, which a pooler refuses, or as a setting of
// its session, which a pooler gives to the next client.
var (
	settingsReadOnly = settings + `, pg_catalog.set_config('transaction_read_only', 'on', true)`
	beginReadOnly    = beginLimited + `; SET LOCAL transaction_read_only = on`
)

// write is do for a call that writes.
func (s *Store) write(ctx context.Context, doing string, call func(context.Context) error) error {
	if s.readOnly {
		return s.wrapError(ctx, doing, ErrReadOnly)
	}
	return s.do(ctx, doing, call)
}

// readerAdvice is advice for a read-only store.
var readerAdvice = map[string]string{
	"42501": "grant the role SELECT on the tables",
	"42703": storerows.OlderSchemaAdvice,
	"42P01": storerows.OlderSchemaAdvice,
}

// readOnlyTransaction is the SQLSTATE code of a statement that writes in a read-only transaction.
const readOnlyTransaction = "25006"

// selectWhyReadOnly returns whether the server is a standby, and what has set default_transaction_read_only: an empty
// text if that is off.
const selectWhyReadOnly = `SELECT pg_catalog.pg_is_in_recovery(), coalesce((SELECT source FROM pg_catalog.pg_settings
		WHERE name {=} 'default_transaction_read_only' AND setting {=} 'on'), '')`

// whyReadOnly says why a server accepts no writes, and what a person can do about it, by a row of selectWhyReadOnly.
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
		return "default_transaction_read_only is on, set " + cmp.Or(settingPlaces[setBy], "by its "+setBy) +
			": set it to off there, or in the connection string", nil
	}
	return "its transaction is read-only", nil
}

// settingPlaces says where a setting can be, by the source in pg_settings.
var settingPlaces = map[string]string{
	"configuration file": "in the server's configuration",
	"command line":       "on the server's command line",
	"database":           "for the database (ALTER DATABASE)",
	"user":               "for the role (ALTER ROLE)",
	"database user":      "for the role in the database (ALTER ROLE IN DATABASE)",
	"client":             "in the connection string",
	"session":            "by a statement of the connection's own",
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

// isOnlyReadOnly reports whether every host of a connection string that asks for one that can write cannot.
func isOnlyReadOnly(err error) bool { return strings.Contains(err.Error(), "read only connection") }
