package postgres

import (
	"context"

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

func (s *Store) settings() string {
	if s.readOnly {
		return settingsReadOnly
	}
	return settings
}

func (s *Store) beginLimited() string {
	if s.readOnly {
		return beginReadOnly
	}
	return beginLimited
}

// write is do for a call that writes.
func (s *Store) write(ctx context.Context, doing string, call func(context.Context) error) error {
	if s.readOnly {
		return s.wrapError(ctx, doing, ErrReadOnly)
	}
	return s.do(ctx, doing, call)
}

// checkSchema finds out whether the events can be read. It changes nothing. It does not look at the other tables, so
// that a command that reads one page is quick: the call that needs one of them says what is wrong with it.
func (s *Store) checkSchema(ctx context.Context) error {
	options := pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadOnly}
	return s.onConn(ctx, func(conn *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, conn, options, func(tx pgx.Tx) error {
			return (&transaction{Tx: tx, ctx: ctx, store: s}).check()
		})
	})
}

func (t *transaction) check() error {
	if err := t.checkServer(); err != nil {
		return err
	}
	if err := t.findSchema(); err != nil {
		return err
	}
	version, oldestReader, err := t.schemaVersion()
	if err != nil {
		return err
	}
	if err := storerows.CheckVersion(version, oldestReader, len(migrations)); err != nil {
		return err
	}
	exist, err := t.checkEvents()
	switch {
	case err != nil:
		return err
	case !exist:
		return storerows.ErrNoTables
	}
	return t.checkRights(readingRights)
}

// readerAdvice is advice for a read-only store.
var readerAdvice = map[string]string{
	"42501": "grant the role SELECT on the tables",
	"42703": storerows.OlderSchemaAdvice,
	"42P01": storerows.OlderSchemaAdvice,
}
