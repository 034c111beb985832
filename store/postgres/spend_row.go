package postgres

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/storeflow"
)

// Who charges a scope, or gives back to it, takes its advisory lock first. The wait for that has no limit, as in
// lockBuckets: only this package takes the lock, and many callers may queue for one scope. The hash is the server's, so
// that a return can take the lock of a scope that it does not know yet.
var (
	lockScope = `WITH locked AS MATERIALIZED (
		SELECT ` + lockHashOf("$1::pg_catalog.text") + ` WHERE ` + withoutLimit + `
	)
	` + limitLocks + ` FROM (SELECT pg_catalog.count(*) FROM locked) AS all_locked`

	lockScopeOfSlice = `WITH locked AS MATERIALIZED (
		SELECT ` + lockHashOf("s.scope::pg_catalog.text") + ` FROM SCHEMA.watchdog_slices AS s
		WHERE s.id {=} $1 AND ` + withoutLimit + `
	)
	` + limitLocks + ` FROM (SELECT pg_catalog.count(*) FROM locked) AS all_locked`
)

func lockHashOf(scope string) string {
	return `pg_catalog.pg_advisory_xact_lock(
			pg_catalog.hashtextextended(` + scope + ` COLLATE pg_catalog."C", $2::bigint))`
}

const withoutLimit = `(SELECT pg_catalog.set_config('lock_timeout', '0', true)) IS NOT NULL`

const (
	insertScope = `
	INSERT INTO SCHEMA.watchdog_spend (scope, window_name) VALUES ($1, '') ON CONFLICT (scope, window_name) DO NOTHING`

	setCurrency = `UPDATE SCHEMA.watchdog_spend SET currency = $2 WHERE scope {=} $1 AND window_name {=} ''`

	readClock = `SELECT pg_catalog.timestamptz_send(pg_catalog.clock_timestamp())`

	lockSlice = `SELECT id FROM SCHEMA.watchdog_slices WHERE id {=} $1 FOR UPDATE`

	lockSliceWindow = `
	SELECT w.scope FROM SCHEMA.watchdog_slices AS s
	JOIN SCHEMA.watchdog_spend AS w ON w.scope {=} s.scope AND w.window_name {=} s.window_name
	WHERE s.id {=} $1 FOR UPDATE OF w`
)

var (
	// lockSpend returns the row of the scope first: its window has no name.
	lockSpend = `
	SELECT window_name, currency, ` + storeflow.EachKind("KIND") + ` FROM SCHEMA.watchdog_spend
	WHERE scope {=} $1 AND window_name {=} ANY ($2::pg_catalog.text[]) ORDER BY window_name FOR UPDATE`

	setCharged = `
	INSERT INTO SCHEMA.watchdog_spend (scope, window_name, ends_at, ` + storeflow.EachKind("KIND") + `)
	VALUES ($1, $2, $3, ` + numbered(4) + `)
	ON CONFLICT (scope, window_name) DO UPDATE SET ` + storeflow.EachKind("KIND = excluded.KIND")

	updateCharged = `
	UPDATE SCHEMA.watchdog_spend SET (` + storeflow.EachKind("KIND") + `) = ROW (` + numbered(3) + `)
	WHERE scope {=} $1 AND window_name {=} $2`

	insertSlice = `
	INSERT INTO SCHEMA.watchdog_slices (id, scope, window_name, taken_at, host, pid, ` +
		storeflow.EachKind("granted_KIND") + `)
	VALUES ($1, $2, $3, pg_catalog.clock_timestamp(), $4, $5::bigint, ` + numbered(6) + `) ON CONFLICT (id) DO NOTHING`

	returnSlice = `
	UPDATE SCHEMA.watchdog_slices SET returned_at = pg_catalog.clock_timestamp(),
		(` + storeflow.EachKind("returned_KIND") + `) = ROW (` + numbered(2) + `)
	WHERE id {=} $1`

	selectSlice = `
	SELECT ` + storeflow.SliceColumns("pg_catalog.timestamptz_send(w.ends_at)") + `
	FROM SCHEMA.watchdog_slices AS s
	LEFT JOIN SCHEMA.watchdog_spend AS w ON w.scope {=} s.scope AND w.window_name {=} s.window_name
	WHERE s.id {=} $1`
)

// numbered returns a parameter for each kind, from a number on.
func numbered(from int) string {
	var all []string
	for i := range storeflow.SpendKinds {
		all = append(all, fmt.Sprintf("$%d::bigint", from+i))
	}
	return strings.Join(all, ", ")
}

// A spendRow is a row of watchdog_spend.
type spendRow struct {
	window, currency string
	charged          watchdog.Totals
}

func scanSpend(row pgx.CollectableRow) (r spendRow, err error) {
	err = row.Scan(append([]any{&r.window, &r.currency}, storeflow.KindsOf(&r.charged)...)...)
	return r, err
}

func scanSlice(row pgx.CollectableRow) (*storeflow.Slice, error) {
	s := new(storeflow.Slice)
	var ends instant
	err := row.Scan(s.Into(&ends)...)
	s.Ends = ends.Time
	return s, err
}

// isText reports whether a column of the database can hold the text.
func isText(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }
