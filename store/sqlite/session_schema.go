package sqlite

import (
	"fmt"
	"slices"
	"strings"
)

// sessionColumns are the columns of a row, in the order in which they are read.
var sessionColumns = []string{
	"run_id", "parent", "status", "created_at", "last_event_at", "threshold", "started_at", "host", "attempt", "resumes", "reason",
}

// The generated columns of watchdog_sessions are times as numbers, in microseconds since 1970, so that a sum of two can be indexed. They are NULL for a text that is none of
// our timestamps; such rows are in an index of their own, because no comparison would ever find them.
//
// Rejected: text in the indexes. It needs no conversion, but a session with a threshold of its own has to be found by when it exceeds that, and SQLite adds up texts to the
// millisecond only. Rejected as well: columns that are written along, which another writer of the table would not know of. created is in the indexes because reading it there is a
// third cheaper than computing it for each row found.
const createSessionTable = `
	CREATE TABLE IF NOT EXISTS main.watchdog_sessions (
		run_id VARCHAR(255) NOT NULL PRIMARY KEY,
		parent VARCHAR(255) NOT NULL DEFAULT '',
		status VARCHAR(20) NOT NULL,
		created_at TEXT NOT NULL,
		last_event_at TEXT,
		threshold INTEGER NOT NULL DEFAULT 0,
		started_at TEXT NOT NULL,
		host TEXT NOT NULL DEFAULT '',
		attempt INTEGER NOT NULL,
		resumes INTEGER NOT NULL DEFAULT 0,
		reason TEXT NOT NULL DEFAULT '',
		ended INTEGER,
		created INTEGER GENERATED ALWAYS AS (%s) VIRTUAL,
		silent INTEGER GENERATED ALWAYS AS (%s) VIRTUAL,
		due INTEGER GENERATED ALWAYS AS (silent + threshold / 1000) VIRTUAL
	) WITHOUT ROWID`

// The conditions of the partial indexes; a query that has one of them word for word can use its index.
const (
	isShared     = `status = 'active' AND threshold = 0`
	isOwn        = `status = 'active' AND threshold > 0`
	isUnreadable = `status = 'active' AND (created IS NULL OR silent IS NULL OR threshold < 0)`
	hasEnded     = `ended IS NOT NULL`
)

// createSessions is version 2.
func createSessions(t *transaction) error {
	for _, statement := range []string{
		fmt.Sprintf(createSessionTable, microseconds("created_at"), microseconds("coalesce(last_event_at, created_at)")),
		`CREATE INDEX IF NOT EXISTS main.watchdog_sessions_silent ON watchdog_sessions (silent, run_id, created) WHERE ` + isShared,
		`CREATE INDEX IF NOT EXISTS main.watchdog_sessions_due ON watchdog_sessions (due, run_id, created) WHERE ` + isOwn,
		`CREATE INDEX IF NOT EXISTS main.watchdog_sessions_unreadable ON watchdog_sessions (run_id) WHERE ` + isUnreadable,
		`CREATE INDEX IF NOT EXISTS main.watchdog_sessions_ended ON watchdog_sessions (ended) WHERE ` + hasEnded,
	} {
		if err := t.exec(statement); err != nil {
			return fmt.Errorf("create watchdog_sessions: %w", err)
		}
	}
	return nil
}

// microseconds is the SQL for a timestamp of ours as a number. SQLite takes the 31st of February for a day in March; the text that comes back tells.
func microseconds(text string) string {
	const form = `[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9] [0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]`
	return strings.NewReplacer("TEXT", text, "FORM", form).Replace(`CASE
			WHEN TEXT NOT GLOB 'FORM' THEN NULL
			WHEN strftime('%Y-%m-%d %H:%M:%S', substr(TEXT, 1, 19)) = substr(TEXT, 1, 19)
			THEN CAST(strftime('%s', substr(TEXT, 1, 19)) AS INTEGER) * 1000000 + CAST(substr(TEXT, 21) AS INTEGER) END`)
}

// checkSessionTable says whether there is a watchdog_sessions table, and fails if it is not ours.
func (t *transaction) checkSessionTable() (exists bool, err error) {
	names, err := t.texts(`SELECT lower(name) FROM pragma_table_xinfo('watchdog_sessions', 'main')`)
	if err != nil || len(names) == 0 {
		return false, err
	}
	for _, name := range slices.Concat(sessionColumns, []string{"ended", "created", "silent", "due"}) {
		if !slices.Contains(names, name) {
			return false, fmt.Errorf("%w (watchdog_sessions has no column %s)", ErrForeignTable, name)
		}
	}
	return true, nil
}
