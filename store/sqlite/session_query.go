package sqlite

import (
	"context"
	"math"
	"strings"
	"sync"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/internal/storeflow"
)

// selectStalled finds stalled sessions. Its first row has the time, and its last rows are the unreadable ones. Sessions
// with a threshold of their own are in other indexes than those without, and sessions in a lease in others than those
// without one. Each part is ordered and limited; Stalled merges the four.
//
// The parameters are:
//
//   - ?1 and ?2: the threshold and the minimum age, in microseconds
//   - ?3: the limit
//   - ?4, ?5 and ?6: for the last session of the previous page, when it fell silent (if it has no threshold of its
//     own), when it exceeded its threshold, and its run ID
//   - ?7: how many unreadable rows to return at most
//   - ?8: the threshold in nanoseconds
//
// The + 0 is there because SQLite prepares a statement again whenever a bare limit parameter is bound, which costs
// fifteen times as much as the rest. The indexes are named because SQLite would prefer an index that a host adds, for
// instance on the status.
var selectStalled = sync.OnceValue(func() string {
	return `
	WITH clock (now) AS (SELECT ` + databaseMicros + `)
	SELECT 'clock', now, '' FROM clock
	UNION ALL SELECT * FROM (
		SELECT 'stalled', silent + ?1, ` + sessionText + ` FROM main.watchdog_sessions INDEXED BY watchdog_sessions_silent
		WHERE ` + hasDefaultThreshold + ` AND (silent, run_id) > (?4, ?6)
			AND silent < (SELECT now FROM clock) - ?1 AND created <= (SELECT now FROM clock) - ?2
		ORDER BY silent, run_id LIMIT ?3 + 0)
	UNION ALL SELECT * FROM (
		SELECT 'stalled', due, ` + sessionText + ` FROM main.watchdog_sessions INDEXED BY watchdog_sessions_due
		WHERE ` + hasOwnThreshold + ` AND (due, run_id) > (?5, ?6)
			AND due < (SELECT now FROM clock) AND created <= (SELECT now FROM clock) - ?2
		ORDER BY due, run_id LIMIT ?3 + 0)
	` + selectStalledLeased("watchdog_sessions_quiet", isQuiet, "quiet_since", "?8") + `
	` + selectStalledLeased("watchdog_sessions_quiet_due", isQuietDue, "quiet_due", "0") + `
	UNION ALL SELECT * FROM (
		SELECT 'unreadable', 0, ` + sessionText + ` FROM main.watchdog_sessions INDEXED BY watchdog_sessions_unreadable
		WHERE ` + isUnreadable + ` LIMIT ?7 + 0)`
})

// selectStalledLeased is the part of selectStalled for sessions in leases: those whose number in the column, with the
// threshold added, is less than what their lease vouches for them. Their position is by the database's clock, as it was
// when the lease was renewed.
//
// It reads one range of the index for each lease, no further than the limit. The index is ordered by nanoseconds and
// the page by microseconds, so the range goes on for a microsecond after the last row that the limit allows.
func selectStalledLeased(index, condition, column, threshold string) string {
	// Of a row that the lease names as behind the range has only the latest end that it can have.
	upTo := `(l.behind IS NULL OR {column} < ` + rowVouched + ` - {threshold})`
	if column == "quiet_due" { // with the allowance: the threshold may be more
		upTo += ` AND (allowance IS NULL OR ` + rowVouched + ` - activity > ?8)`
	}
	upTo = strings.NewReplacer("{column}", column, "{threshold}", threshold).Replace(upTo)
	return strings.NewReplacer("{index}", index, "{condition}", condition, "{column}", column, "{threshold}", threshold,
		"{most}", noLimit, "{row}", sessionText, "{vouched}", vouchedFor, "{up to}", upTo,
	).Replace(`UNION ALL SELECT 'stalled', q.due, {row} FROM (
		SELECT (l.epoch + {column} + {threshold}) / 1000 AS due, i.run_id AS id
		FROM main.watchdog_leases AS l CROSS JOIN main.watchdog_sessions AS i INDEXED BY {index}
		WHERE l.expired IS NULL AND i.lease = l.id AND {condition}
			AND {column} >= ?5 * 1000 - l.epoch - {threshold}
			AND {column} < min({vouched} - {threshold}, coalesce((
				SELECT {column} + 1000 FROM main.watchdog_sessions AS n INDEXED BY {index}
				WHERE n.lease = l.id AND {condition} AND {column} < {vouched} - {threshold} AND {up to}
					AND {column} >= ?5 * 1000 - l.epoch - {threshold}
					AND ((l.epoch + {column} + {threshold}) / 1000, run_id) > (?5, ?6)
					AND created <= (SELECT now FROM clock) - ?2
				ORDER BY {column} LIMIT 1 OFFSET ?3 - 1), {most})) AND {up to}
			AND ((l.epoch + {column} + {threshold}) / 1000, run_id) > (?5, ?6)
			AND created <= (SELECT now FROM clock) - ?2
		ORDER BY 1, 2 LIMIT ?3 + 0) AS q CROSS JOIN main.watchdog_sessions ON run_id = q.id`)
}

// Stalled implements [session.Store]. Sessions that exceeded their thresholds at the same time are ordered by run ID.
// The first page reports unreadable rows, at most a hundred.
func (s *Store) Stalled(ctx context.Context, q session.Query) (session.Page, error) {
	last, err := storeflow.AfterOf(q.After, q)
	if err != nil {
		return session.Page{}, err
	}
	var f found
	err = s.read(ctx, "stalled sessions", func() (err error) {
		f, err = foundBy(reading{ctx, s, &s.stalled}, selectStalled(), stalledArguments(q, last)...)
		return err
	})
	if err != nil {
		return session.Page{}, err
	}
	page := storeflow.StalledPage(f.now, f.rows, q.Limit)
	page.Unreadable = append(f.unreadable, page.Unreadable...)
	return page, nil
}

func stalledArguments(q session.Query, last session.Place) []any {
	threshold, unreadable := q.Threshold.Microseconds(), session.MaxUnreadable
	silent := last.Due
	if q.After != "" {
		silent, unreadable = last.Due-threshold, 0
	}
	limit := min(q.Limit, math.MaxInt32) + 1 // one more, to know whether there is a next page
	return []any{threshold, storeflow.RoundUp(q.MinAge), limit, silent, last.Due, last.RunID, unreadable,
		int64(q.Threshold)}
}
