package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog/session"
)

// maxUnreadable is how many rows that cannot be read a page tells of.
const maxUnreadable = 100

// selectStalled finds stalled sessions, with the time in its first row and those that cannot be read in its last ones. Sessions with a threshold of their own are in another index
// than those without; each half is in order and limited, and the two are merged outside.
//
// ?1 is the threshold and ?2 the minimal age, in microseconds; ?3 the limit; ?4 when the last session of the page before fell silent if it has no threshold of its own, ?5 when
// it exceeded its threshold, ?6 its run ID; ?7 how many unreadable rows there may be. A limit that is a bare parameter has SQLite prepare the statement again whenever it is bound, which
// costs fifteen times as much as the rest: hence the + 0. The indexes are named, because an index that a host adds, on the status for instance, would be taken for a better one.
var selectStalled = `
	WITH clock (now) AS (SELECT ` + databaseMicros + `)
	SELECT 'clock', now, '' FROM clock
	UNION ALL SELECT * FROM (
		SELECT 'stalled', silent + ?1, ` + sessionText + ` FROM main.watchdog_sessions INDEXED BY watchdog_sessions_silent
		WHERE ` + isShared + ` AND (silent, run_id) > (?4, ?6)
			AND silent < (SELECT now FROM clock) - ?1 AND created <= (SELECT now FROM clock) - ?2
		ORDER BY silent, run_id LIMIT ?3 + 0)
	UNION ALL SELECT * FROM (
		SELECT 'stalled', due, ` + sessionText + ` FROM main.watchdog_sessions INDEXED BY watchdog_sessions_due
		WHERE ` + isOwn + ` AND (due, run_id) > (?5, ?6)
			AND due < (SELECT now FROM clock) AND created <= (SELECT now FROM clock) - ?2
		ORDER BY due, run_id LIMIT ?3 + 0)
	UNION ALL SELECT * FROM (
		SELECT 'unreadable', 0, ` + sessionText + ` FROM main.watchdog_sessions INDEXED BY watchdog_sessions_unreadable
		WHERE ` + isUnreadable + ` LIMIT ?7 + 0)`

// A finding keeps selectStalled prepared: preparing it takes longer than the rest.
type finding struct {
	mu       sync.Mutex
	prepared *sql.Stmt
}

func (f *finding) statement(ctx context.Context, db *sql.DB) (_ *sql.Stmt, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.prepared == nil {
		f.prepared, err = db.PrepareContext(ctx, selectStalled)
	}
	return f.prepared, err
}

func (f *finding) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.prepared != nil {
		_ = f.prepared.Close() // nothing depends on it
	}
}

// Stalled implements [session.Store]. Of sessions that exceeded their thresholds at one time, those come first whose run ID does. The first page tells of unreadable
// rows, at most a hundred.
func (s *Store) Stalled(ctx context.Context, q session.Query) (page session.Page, err error) {
	last := place{due: math.MinInt64}
	if q.After != "" {
		last, err = parsePlace(q.After)
	}
	if err = cmp.Or(q.Validate(), err); err != nil {
		return session.Page{}, err
	}
	var found []stalledRow
	err = s.read(ctx, "stalled sessions", func() (err error) {
		page, found, err = s.findStalled(ctx, q, last)
		return err
	})
	if err != nil {
		return session.Page{}, err
	}
	slices.SortFunc(found, func(a, b stalledRow) int { return a.compare(b.place) })
	if len(found) > q.Limit {
		found = found[:q.Limit]
		page.Next = found[q.Limit-1].String()
	}
	for _, f := range found {
		if one, err := readSession(f.row); err != nil {
			page.Unreadable = append(page.Unreadable, err)
		} else {
			page.Sessions = append(page.Sessions, one)
		}
	}
	return page, nil
}

// A stalledRow is a row that selectStalled finds stalled. It may turn out to be unreadable in another column.
type stalledRow struct {
	place
	row string
}

// findStalled returns the two halves of a page, and a page with what else the query says.
func (s *Store) findStalled(ctx context.Context, q session.Query, last place) (page session.Page, found []stalledRow, err error) {
	statement, err := s.finding.statement(ctx, s.db) //nolint:sqlclosecheck // kept until the store is closed
	if err != nil {
		return page, nil, err
	}
	rows, err := statement.QueryContext(ctx, stalledArguments(q, last)...)
	if err != nil {
		return page, nil, err
	}
	defer func() { _ = rows.Close() }() // what went wrong is in rows.Err
	for rows.Next() {
		var kind, row string
		var at int64
		if err := rows.Scan(&kind, &at, &row); err != nil {
			return page, nil, err
		}
		switch kind {
		case "clock":
			page.Now = time.UnixMicro(at).UTC()
		case "stalled":
			runID, _, _ := strings.Cut(row, columnEnd)
			found = append(found, stalledRow{place{at, runID}, row})
		default:
			page.Unreadable = append(page.Unreadable, whyUnreadable(row))
		}
	}
	return page, found, rows.Err()
}

// whyUnreadable is the flaw of a row that the database cannot compare.
func whyUnreadable(row string) error {
	s, err := readSession(row)
	if err == nil {
		err = fmt.Errorf("%w: run %s: the database does not take its times for times", session.ErrUnreadable, s.RunID)
	}
	return err
}

func stalledArguments(q session.Query, last place) []any {
	threshold, unreadable := q.Threshold.Microseconds(), maxUnreadable
	silent := last.due
	if q.After != "" {
		silent, unreadable = last.due-threshold, 0
	}
	minAge := (q.MinAge + time.Microsecond - 1).Microseconds()
	return []any{threshold, minAge, min(q.Limit, math.MaxInt32) + 1, silent, last.due, last.runID, unreadable}
}

// A place is where a session stands among those that are stalled.
type place struct {
	due   int64 // when it exceeded its threshold, in microseconds since 1970
	runID string
}

func (p place) compare(other place) int {
	return cmp.Or(cmp.Compare(p.due, other.due), strings.Compare(p.runID, other.runID))
}

// String is the form in which a place begins the next page.
func (p place) String() string { return strconv.FormatInt(p.due, 10) + " " + p.runID }

func parsePlace(text string) (place, error) {
	due, runID, found := strings.Cut(text, " ")
	at, err := strconv.ParseInt(due, 10, 64)
	if err != nil || !found {
		return place{}, fmt.Errorf("find stalled sessions: %q is not where a page ended; pass the Next of the page before", text)
	}
	return place{at, runID}, nil
}
