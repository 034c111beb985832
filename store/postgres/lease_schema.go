package postgres

import (
	"fmt"
	"slices"

	"github.com/seed62658d38/watchdog/internal/storeflow"
)

// createLeaseTable makes the leases of keepers. Clock, vouched and promise are in nanoseconds, the first two by the
// clock of the lease's process. Each look at a lease counts looks up, which is how an observer knows that the database
// takes writes. A renewal and a look change no column of an index, and the free space on the page takes their new rows.
const createLeaseTable = `
	CREATE TABLE IF NOT EXISTS SCHEMA.watchdog_leases (
		id varchar(255) COLLATE pg_catalog."C" PRIMARY KEY,
		host pg_catalog.text NOT NULL DEFAULT '',
		promise bigint NOT NULL,
		beat bigint NOT NULL,
		clock bigint NOT NULL,
		vouched bigint NOT NULL,
		renewed_at pg_catalog.timestamptz NOT NULL,
		looks bigint NOT NULL DEFAULT 0,
		expired pg_catalog.timestamptz
	) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02)`

// parts are those of the schema. An alert is a notice of no event.
var parts = append(slices.Clone(storeflow.Parts),
	storeflow.Part{Version: 2, Table: "watchdog_sessions", Columns: []string{"ended_at", "readable", "silent", "due"}},
	storeflow.Part{Version: 5, Table: "watchdog_outbox", Added: []storeflow.AddedColumn{{Name: "alert", Type: "off"}}},
)

// addedTypes are the types of the columns that a version adds. Activity and what is made of it is written by HOT
// updates: quiet_since and quiet_due, which are in an index, are rounded up to microseconds, so that the index has the
// order of the pages of stalled sessions.
var addedTypes = map[string]string{
	"text": "pg_catalog.text", "integer": "bigint", "time": "pg_catalog.timestamptz", "flag": "boolean",
	"JSON": "pg_catalog.json", "lease ID": `varchar(255) COLLATE pg_catalog."C" REFERENCES SCHEMA.watchdog_leases (id)`,
	"since": "pg_catalog.timestamptz NOT NULL DEFAULT '-infinity'", "count": "bigint NOT NULL DEFAULT 0",
	"off": "boolean NOT NULL DEFAULT false",
}

// The indexes of leased rows, and those of lists. The first also finds the rows that still name a lease when it is
// deleted.
var leaseIndexes = [][2]string{
	{"lease", "(lease, run_id) WHERE lease IS NOT NULL"},
	{"quiet_since", "(lease, quiet_since, run_id) WHERE quiet_since IS NOT NULL"},
	{"quiet_due", "(lease, quiet_due, run_id) WHERE quiet_due IS NOT NULL"},
	{"created", "(created_at DESC, run_id DESC)"},
	{"live", "(created_at DESC, run_id DESC) WHERE status {=} 'active'"},
	{"parent", "(parent, created_at DESC, run_id DESC) WHERE parent {<>} ''"},
	{"host", "(host, created_at DESC, run_id DESC)"},
}

// createLeases is a part of version 3. Adding a column that may be NULL takes a moment, however many rows there are, if
// no transaction uses the table: migrate fails, and does not wait with everybody behind it, if one does for long.
func createLeases(t *transaction) error {
	for _, statement := range []string{createLeaseTable, createOutbox} {
		if err := t.exec(statement); err != nil {
			return fmt.Errorf("create the tables of leases: %w", err)
		}
	}
	var statements []string
	for _, index := range leaseIndexes {
		statements = append(statements,
			"CREATE INDEX IF NOT EXISTS watchdog_sessions_"+index[0]+" ON SCHEMA.watchdog_sessions "+index[1])
	}
	return t.add(3, append(statements, "ALTER TABLE SCHEMA.watchdog_sessions SET (fillfactor = 70)")...)
}

// add adds the columns of a version, and then runs the statements. Both fail if a transaction uses a table for long.
func (t *transaction) add(version int, statements ...string) error {
	if err := t.exec(limitLocks); err != nil {
		return err
	}
	err := storeflow.Additions(parts, version, addedTypes, func(table, column, of string) error {
		return t.exec("ALTER TABLE SCHEMA." + table + " ADD COLUMN IF NOT EXISTS " + column + " " + of)
	})
	if err != nil {
		return err
	}
	for _, statement := range statements {
		if err := t.exec(statement); err != nil {
			return fmt.Errorf("make version %d of the schema: %w", version, err)
		}
	}
	return nil
}
