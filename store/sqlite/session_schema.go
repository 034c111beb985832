package sqlite

import (
	"strings"

	"github.com/seed62658d38/watchdog/internal/storeflow"
)

// The generated columns of watchdog_sessions are times as numbers, in microseconds since 1970, so that the sum of a
// time and a threshold can be indexed. They are NULL for a text that is not a timestamp of ours. Such rows have an
// index of their own, because no comparison would find them.
//
// Rejected: text in the indexes. It needs no conversion, but a session with a threshold of its own must be found by the
// time when it exceeds the threshold, and SQLite adds texts only to the millisecond. Rejected as well: ordinary columns
// that every write sets, because other writers of the table do not know them. The indexes contain created, because
// reading it from there costs a third less than computing it for each row found.
var numberedTimes = []storeflow.Column{
	{Name: "ended", Is: "INTEGER"},
	{Name: "created", Is: "INTEGER GENERATED ALWAYS AS (" + microseconds("created_at") + ") VIRTUAL"},
	{
		Name: "silent",
		Is:   "INTEGER GENERATED ALWAYS AS (" + microseconds("coalesce(last_event_at, created_at)") + ") VIRTUAL",
	},
	{Name: "due", Is: "INTEGER GENERATED ALWAYS AS (silent + threshold / 1000) VIRTUAL"},
}

// The conditions of the partial indexes. A query must repeat a condition word for word to use its index.
const (
	hasDefaultThreshold = `status = 'active' AND threshold = 0`
	hasOwnThreshold     = `status = 'active' AND threshold > 0`
	isUnreadable        = `status = 'active' AND (created IS NULL OR silent IS NULL OR threshold < 0)`
	hasEnded            = `ended IS NOT NULL`
)

var sessionIndexes = []string{
	`CREATE INDEX IF NOT EXISTS main.watchdog_sessions_silent
		ON watchdog_sessions (silent, run_id, created) WHERE ` + hasDefaultThreshold,
	`CREATE INDEX IF NOT EXISTS main.watchdog_sessions_due
		ON watchdog_sessions (due, run_id, created) WHERE ` + hasOwnThreshold,
	`CREATE INDEX IF NOT EXISTS main.watchdog_sessions_unreadable ON watchdog_sessions (run_id) WHERE ` + isUnreadable,
	`CREATE INDEX IF NOT EXISTS main.watchdog_sessions_ended ON watchdog_sessions (ended) WHERE ` + hasEnded,
}

// microseconds is the SQL that converts a timestamp of ours to a number. SQLite reads February 31st as a day in
// March, so the expression compares with the text that SQLite makes of the time.
func microseconds(text string) string {
	return strings.NewReplacer("TEXT", text, "FORM", timeForm).Replace(`CASE
			WHEN TEXT NOT GLOB 'FORM' THEN NULL
			WHEN strftime('%Y-%m-%d %H:%M:%S', substr(TEXT, 1, 19)) = substr(TEXT, 1, 19)
			THEN CAST(strftime('%s', substr(TEXT, 1, 19)) AS INTEGER) * 1000000 + CAST(substr(TEXT, 21) AS INTEGER) END`)
}
