package postgres

import "github.com/seed62658d38/watchdog/internal/storeflow"

// The column ended is the transaction in which the row last ended: transactions have the order in which others see
// them, and times do not. Keepers of versions before 6 ask by it what ended, and it and its index are kept for them
// alone.
//
// The queries use generated columns, which other writers of the table need not know: whether the row is readable,
// since when its run is silent, and when it exceeds a threshold of its own. The expression for due converts to UTC
// and back, because PostgreSQL generates a column only from an immutable sum, and only the sum of a time without a
// zone is one.
var sessionColumns = []storeflow.Column{
	{Name: "ended_at", Is: "{time}"},
	{Name: "ended", Is: "pg_catalog.xid8"},
	{Name: "readable", Is: `boolean GENERATED ALWAYS AS (status {=} ANY ('{active,cancelled,interrupted,finished}')
			AND threshold {>=} 0 AND attempt {>=} 0 AND resumes {>=} 0 AND ` + readableTimes + `) STORED`},
	{Name: "silent", Is: "{time} GENERATED ALWAYS AS (coalesce(last_event_at, created_at)) STORED"},
	{Name: "due", Is: `{time} GENERATED ALWAYS AS ((
			(coalesce(last_event_at, created_at) AT TIME ZONE 'UTC')
			{+} ((threshold {/} 1000) {*} {microsecond})) AT TIME ZONE 'UTC') STORED`},
}

const readableTimes = `
			created_at {>=} '0001-01-01 00:00:00+00' AND created_at {<=} '9999-12-31 23:59:59.999999+00'
			AND coalesce(last_event_at, created_at) {>=} '0001-01-01 00:00:00+00'
			AND coalesce(last_event_at, created_at) {<=} '9999-12-31 23:59:59.999999+00'
			AND started_at {>=} '0001-01-01 00:00:00+00' AND started_at {<=} '9999-12-31 23:59:59.999999+00'`

// The conditions of the partial indexes. A query must repeat a condition word for word to use its index.
const (
	hasDefaultThreshold = `status {=} 'active' AND readable AND threshold {=} 0`
	hasOwnThreshold     = `status {=} 'active' AND readable AND threshold {>} 0`
	isUnreadable        = `status {=} 'active' AND NOT readable`
	hasEnded            = `ended IS NOT NULL`
)
