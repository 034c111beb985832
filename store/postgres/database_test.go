package postgres_test

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// A databases has the empty databases of tests that have ended. To create one takes the server longer than most tests,
// because it writes a thousand files.
type databases struct {
	mu    sync.Mutex
	names []string
	fresh string // what contents finds in a database as it is created
}

var emptied databases

// take returns the name of an empty database, or "" if there is none.
func (d *databases) take() (name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if last := len(d.names) - 1; last >= 0 {
		name, d.names = d.names[last], d.names[:last]
	}
	return name
}

// created notes what a database looks like as it is created.
func (d *databases) created(tb testing.TB, dsn string) {
	tb.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fresh == "" {
		found, err := find(dsn, "")
		require.NoError(tb, err)
		d.fresh = found
	}
}

// give empties a database and keeps it for the next test. One in which something is left is not used again.
func (d *databases) give(name, dsn string) {
	found, err := find(dsn, dropAll)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil && found == d.fresh {
		d.names = append(d.names, name)
	}
}

// find runs statements in a database, and then returns what contents finds.
func find(dsn, statements string) (found string, err error) {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statements); err != nil {
		return "", err
	}
	err = conn.QueryRow(ctx, contents).Scan(&found)
	return found, err
}

// dropAll ends the other connections to a database, and drops its tables and schemas.
const dropAll = `DO $$
	DECLARE tables text; schemas text;
	BEGIN
		PERFORM pg_terminate_backend(pid, 10000) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid();
		PERFORM pg_stat_reset();
		SELECT string_agg(oid::regclass::text, ', ') INTO tables FROM pg_class
			WHERE relnamespace = 'public'::regnamespace AND relkind = 'r';
		SELECT string_agg(quote_ident(nspname), ', ') INTO schemas FROM pg_namespace
			WHERE nspname !~ '^pg_' AND nspname NOT IN ('public', 'information_schema');
		IF tables <> '' THEN EXECUTE 'DROP TABLE ' || tables || ' CASCADE'; END IF;
		IF schemas <> '' THEN EXECUTE 'DROP SCHEMA ' || schemas || ' CASCADE'; END IF;
	END $$`

// contents counts what can be in a database, and shows the rights to its schemas.
const contents = `SELECT concat_ws(' ', (SELECT count(*) FROM pg_class), (SELECT count(*) FROM pg_type),
	(SELECT count(*) FROM pg_proc), (SELECT count(*) FROM pg_collation), (SELECT count(*) FROM pg_default_acl),
	(SELECT count(*) FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase
		WHERE d.datname = current_database()),
	(SELECT string_agg(concat_ws(' ', nspname, nspacl), ', ' ORDER BY oid) FROM pg_namespace
		WHERE nspname !~ '^pg_(toast_)?temp_'))`
