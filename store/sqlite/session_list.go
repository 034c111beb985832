package sqlite

import (
	"cmp"
	"context"
	"math"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog/internal/storerows"
	"github.com/seed62658d38/watchdog/session"
)

// List implements [session.Lister]. It reports rows whose creation cannot be read on the first page, at most a hundred.
func (s *Store) List(ctx context.Context, q session.ListQuery) (page session.ListPage, err error) {
	last, err := storerows.ParsePlace(q.After)
	if err = cmp.Or(q.Validate(), err); err != nil {
		return session.ListPage{}, err
	}
	if q.After == "" {
		last = storerows.Place{Due: math.MaxInt64}
	}
	unreadable := storerows.MaxUnreadable
	if q.After != "" {
		unreadable = 0
	}
	limit := min(q.Limit, math.MaxInt32)
	arguments := []any{last.Due, last.RunID, limit + 1, unreadable, q.Parent, q.Host, string(q.Reason)}
	err = s.read(ctx, "sessions", func() error {
		page = session.ListPage{}
		listed := 0
		var place storerows.Place
		return s.eachRow(ctx, selectList(q), arguments, func(scan func(...any) error) error {
			var kind, row string
			var at int64
			if err := scan(&kind, &at, &row); err != nil {
				return err
			}
			switch {
			case kind == "clock":
				page.Now = time.UnixMicro(at).UTC()
				return nil
			case kind == "listed" && listed == limit:
				page.Next = place.String()
				return nil
			case kind == "listed":
				listed++
				runID, _, _ := strings.Cut(row, columnSeparator)
				place = storerows.Place{Due: at, RunID: runID}
			}
			if one, err := readSession(row); err != nil {
				page.Unreadable = append(page.Unreadable, err)
			} else {
				page.Sessions = append(page.Sessions, one)
			}
			return nil
		})
	})
	if err != nil {
		return session.ListPage{}, err
	}
	return page, nil
}

// selectList finds a page of a list of sessions: a row with the time, the sessions, and those without a time of their
// creation. The parameters are the position of the last session of the page before (?1 and ?2), the limits of both
// (?3 and ?4), the parent, the host and the reason. All of them are in the statement, because it must not have more
// arguments than it has parameters.
func selectList(q session.ListQuery) string {
	index, conditions := listIndex(q)
	return strings.NewReplacer("{row}", sessionText, "{index}", index, "{conditions}", conditions).Replace(`
	SELECT 'clock', ` + databaseMicros + `, '' WHERE ?5 IS NOT NULL AND ?6 IS NOT NULL AND ?7 IS NOT NULL
	UNION ALL SELECT * FROM (
		SELECT 'listed', created, {row} FROM main.watchdog_sessions INDEXED BY {index}
		WHERE {conditions} AND (created, run_id) < (?1, ?2) ORDER BY created DESC, run_id DESC LIMIT ?3 + 0)
	UNION ALL SELECT * FROM (
		SELECT 'unreadable', 0, {row} FROM main.watchdog_sessions INDEXED BY {index}
		WHERE {conditions} AND created IS NULL LIMIT ?4 + 0)`)
}

// hasFailed is what [session.Session.Failed] is.
const hasFailed = `(+status = 'finished' AND +reason = 'complete' AND coalesce(
	CASE WHEN json_valid(state) THEN json_extract(state, '$.outcome') END = 'failed', 0))`

// listIndex returns the index that leaves out most, and the conditions of a list.
func listIndex(q session.ListQuery) (index, conditions string) {
	index = "watchdog_sessions_created"
	all := []string{"TRUE"}
	switch {
	case q.Live == q.Ended:
	case q.Live:
		index, all = "watchdog_sessions_live", append(all, isLive)
	default:
		all = append(all, `+status <> 'active'`)
	}
	switch q.Reason {
	case "":
	case session.ReasonFailed:
		all = append(all, hasFailed)
	default:
		all = append(all, `+reason = ?7`, `NOT `+hasFailed)
	}
	if q.Host != "" {
		index, all = "watchdog_sessions_host", append(all, `host = ?6`)
	}
	if q.Parent != "" {
		index, all = "watchdog_sessions_parent", append(all, hasParent, `parent = ?5`)
	}
	return index, strings.Join(all, " AND ")
}
