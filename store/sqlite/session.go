package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/internal/storeflow"
)

// A query returns each row as one text: scanning nineteen columns takes the driver longer than SQLite needs to find
// them. readSession parses the text, so that another program's invalid value is an unreadable row and no failed query.
const (
	columnSeparator = "\x1f" // none of our columns contains it
	nullText        = "\x1e"
)

// What the columns of a row mean.
const (
	rowLease     = `coalesce(lease, '')`
	rowActive    = `CASE WHEN lease IS NOT NULL THEN coalesce(activity, -1) ELSE 0 END`
	rowAllowance = `coalesce(allowance, 0)`
	rowQuiet     = `lease IS NOT NULL AND activity IS NOT NULL AND coalesce(quiet_since, quiet_due) IS NOT NULL`
	rowSilence   = `CASE WHEN ` + rowQuiet + ` THEN max(coalesce((
			SELECT ` + rowVouched + ` FROM main.watchdog_leases AS l WHERE l.id = lease), 0) - activity, 0) ELSE 0 END`
	rowIsBehind = `CASE WHEN ` + rowQuiet + ` THEN coalesce((
			SELECT ` + ofBehind + ` IS NOT NULL FROM main.watchdog_leases AS l WHERE l.id = lease), 0) ELSE 0 END`
	// vouchedFor is the instant up to which a lease l vouches for all rows but those that it names as behind, ofBehind
	// that of a row which it names, and rowVouched that of any row.
	vouchedFor = `max(l.vouched, l.covered)`
	ofBehind   = `CASE WHEN l.behind IS NOT NULL THEN (
			SELECT min(json_extract(b.value, '$.written'), ` + vouchedFor + `) FROM json_each(l.behind) AS b
			WHERE json_extract(b.value, '$.run') = run_id AND json_extract(b.value, '$.attempt') = attempt) END`
	rowVouched = `coalesce(` + ofBehind + `, ` + vouchedFor + `)`
	rowEnded   = `CASE WHEN status <> 'active' AND typeof(ended) = 'integer' THEN max(ended, 0) ELSE 0 END`
	// What was noted is void if the row is not as it was then. noteSigns notes how the row is.
	isNoted = `coalesce(warned_lease = ` + rowLease + ` AND warned_beat = ` + rowActive + `
		AND warned_last_event IS last_event_at, 0)`
	noteSigns = ` warned_lease = ` + rowLease + `, warned_beat = ` + rowActive + `, warned_last_event = last_event_at`
	rowWarned = `CASE WHEN warned_at IS NOT NULL AND ` + isNoted + ` THEN warned_at ELSE '` + nullText + `' END`
	isStopped = `stop_failed IS NOT NULL AND status = 'active' AND ` + isNoted
	// rowStopped is 1 if the agents could not be stopped, and 2 more if the session is active.
	rowStopped = `CASE WHEN status = 'cancelled' THEN coalesce(stop_failed <> 0, 0) WHEN ` + isStopped + `
		THEN 2 + (stop_failed <> 0) ELSE 0 END`
)

// sessionText is the SQL for the text of a row, in the order of sessionFields. The last cost a row without them little.
var sessionText = concatenated(
	"run_id", "parent", "status", "created_at", "coalesce(last_event_at, '"+nullText+"')", "threshold", "started_at",
	"host", "attempt", "resumes", "reason", rowEnded,
	`CASE WHEN coalesce(lease, warned_at, claim, stop_failed, state, expired_lease, lost, start_due) IS NULL
		THEN '`+strings.Join(withoutMore, columnSeparator)+`' ELSE `+
		concatenated(rowLease, rowActive, rowSilence, rowWarned, "coalesce(claim, '')", rowStopped,
			"coalesce(state, '')", rowIsBehind, "coalesce(lost, 0)", rowAllowance, "coalesce(expired_lease, '')",
			ifToStart("start_key", "''"), ifToStart("start_tries", "0"), ifToStart("start_due", "0"))+` END`)

// withoutMore are the fields from the lease on of a row that has nothing there.
var withoutMore = []string{"", "0", "0", nullText, "", "0", "", "0", "0", "0", "", "", "0", "0"}

func ifToStart(column, none string) string {
	return `coalesce(CASE WHEN ` + isToStart + ` THEN ` + column + ` END, ` + none + `)`
}

func concatenated(columns ...string) string {
	return strings.Join(columns, ` || '`+columnSeparator+`' || `)
}

var sessionFields = []string{
	"run_id", "parent", "status", "created_at", "last_event_at", "threshold", "started_at", "host", "attempt", "resumes",
	"reason", "ended", "lease", "activity", "silence", "warned_at", "claim", "stop_failed", "state", "behind", "lost",
	"allowance", "expired_lease", "start_key", "start_tries", "start_due"}

// readSession parses a row. Its error wraps [session.ErrUnreadable].
func readSession(text string) (session.Session, error) {
	r := rowReader{fields: strings.Split(text, columnSeparator)}
	f := r.fields
	if len(f) != len(sessionFields) {
		return session.Session{}, fmt.Errorf("%w: run %s: a column has the control character %q",
			session.ErrUnreadable, clip(f[0]), columnSeparator)
	}
	s := session.Session{
		RunID: f[0], Parent: f[1], Status: session.Status(f[2]), CreatedAt: r.moment(3), LastEventAt: r.moment(4),
		Threshold: time.Duration(r.number(5, 0)), StartedAt: r.moment(6), Host: f[7], Attempt: int(r.number(8, 0)),
		Resumes: int(r.number(9, 0)), Reason: watchdog.StopReason(f[10]), Lease: f[12],
		Activity: time.Duration(r.number(13, -1)), Silence: time.Duration(r.number(14, 0)), WarnedAt: r.moment(15),
		Claim: f[16], State: r.json(18), Behind: r.number(19, 0) > 0, Lost: r.number(20, 0) == 1,
		Allowance: time.Duration(r.number(21, 0)), Expired: storeflow.ReadExpired(f[22]),
	}
	if f[23] != "" {
		s.Start = session.WantedStart{Key: f[23], Tries: int(r.number(24, 0)), Due: time.UnixMicro(r.number(25, 0)).UTC()}
	}
	if ended := r.number(11, 0); ended > 0 {
		s.EndedAt = time.UnixMicro(ended).UTC()
	}
	stopped := r.number(17, 0)
	s.Stopped, s.StopFailed = stopped >= 2, stopped%2 != 0
	switch s.Status {
	case session.Active, session.Cancelled, session.Interrupted, session.Finished:
	default:
		r.problem(2, "there is no status %q")
	}
	if len(r.problems) > 0 {
		return session.Session{}, fmt.Errorf("%w: run %s: %w", session.ErrUnreadable, s.RunID, errors.Join(r.problems...))
	}
	return s, nil
}

// A rowReader reads the fields of a row, and notes what is wrong with them.
type rowReader struct {
	fields   []string
	problems []error
}

func (r *rowReader) problem(field int, format string, more ...any) {
	what := fmt.Sprintf(format, append([]any{clip(r.fields[field])}, more...)...)
	r.problems = append(r.problems, fmt.Errorf("column %s: %s", sessionFields[field], what))
}

func (r *rowReader) number(field int, least int64) int64 {
	n, err := strconv.ParseInt(r.fields[field], 10, 64)
	if err != nil || n < least {
		r.problem(field, "%q is not a number from %d", least)
	}
	return n
}

// moment returns the zero time for NULL, which only columns have that may be NULL.
func (r *rowReader) moment(field int) time.Time {
	if r.fields[field] == nullText {
		return time.Time{}
	}
	at, err := time.Parse(timeLayout, r.fields[field])
	if err != nil {
		r.problem(field, "%q is not a time of the form %q", timeLayout)
	}
	return at
}

func (r *rowReader) json(field int) json.RawMessage {
	text := r.fields[field]
	if text == "" {
		return nil
	}
	if !json.Valid([]byte(text)) {
		r.problems = append(r.problems, fmt.Errorf("column %s does not hold JSON", sessionFields[field]))
	}
	return json.RawMessage(text)
}

// List implements [session.Lister]. It reports rows whose creation cannot be read on the first page, at most a hundred.
func (s *Store) List(ctx context.Context, q session.ListQuery) (session.ListPage, error) {
	last, err := storeflow.AfterOf(q.After, q)
	if err != nil {
		return session.ListPage{}, err
	}
	unreadable := 0
	if q.After == "" {
		last.Due, unreadable = math.MaxInt64, session.MaxUnreadable
	}
	f, err := readAs(ctx, s, "sessions", func(r reading) (found, error) {
		return foundBy(r, selectList(q), last.Due, last.RunID,
			min(q.Limit, math.MaxInt32)+1, unreadable, q.Parent, q.Host, string(q.Reason))
	})
	if err != nil {
		return session.ListPage{}, err
	}
	page := storeflow.ListPage(f.now, f.rows, q.Limit)
	page.Unreadable = append(page.Unreadable, f.unreadable...)
	return page, nil
}

// What a search found: its rows in their order, and the errors of those that have no place.
type found struct {
	now        time.Time
	rows       []foundRow
	unreadable []error
}

// A foundRow is a session as selectSession returns it, and its place.
type foundRow struct {
	place session.Place
	text  string
}

func (r foundRow) Place() session.Place              { return r.place }
func (r foundRow) Session() (session.Session, error) { return readSession(r.text) }

// foundBy runs a search, each of whose rows is the time, a session with its place, or one that has none.
func foundBy(on querier, statement string, arguments ...any) (f found, err error) {
	err = eachRow(on, func(rows *sql.Rows) error {
		var kind, text string
		var at int64
		err := rows.Scan(&kind, &at, &text)
		switch kind {
		case "clock":
			f.now = time.UnixMicro(at).UTC()
		case "unreadable":
			one, err := readSession(text)
			if err == nil {
				err = fmt.Errorf("%w: run %s: SQLite cannot read its times", session.ErrUnreadable, one.RunID)
			}
			f.unreadable = append(f.unreadable, err)
		default:
			runID, _, _ := strings.Cut(text, columnSeparator)
			f.rows = append(f.rows, foundRow{session.Place{Due: at, RunID: runID}, text})
		}
		return err
	}, statement, arguments...)
	return f, err
}

// selectList finds a page of a list of sessions: a row with the time, the sessions, and those without a time of their
// creation. The parameters are the position of the last session of the page before (?1 and ?2), the limits of both
// (?3 and ?4), the parent, the host and the reason. All of them are in the statement, because it must not have more
// arguments than it has parameters.
func selectList(q session.ListQuery) string {
	index, conditions := listIndex(q)
	return strings.NewReplacer("{row}", sessionText, "{index}", index, "{conditions}", conditions).Replace(`
	SELECT 'clock', ` + databaseMicros + `, '' WHERE ?5 IS NOT NULL AND ?6 IS NOT NULL AND ?7 IS NOT NULL
	UNION ALL SELECT * FROM (SELECT 'listed', created, {row} FROM main.watchdog_sessions INDEXED BY {index}
		WHERE {conditions} AND (created, run_id) < (?1, ?2) ORDER BY created DESC, run_id DESC LIMIT ?3 + 0)
	UNION ALL SELECT * FROM (SELECT 'unreadable', 0, {row} FROM main.watchdog_sessions INDEXED BY {index}
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

// Session implements [session.Store].
func (s *Store) Session(ctx context.Context, runID string) (session.Session, error) {
	return readAs(ctx, s, "session "+runID, func(r reading) (session.Session, error) { return sessionBy(r, runID) })
}

// The SQL for the keys of a history. Another writer's event may have no reason, one that is no text, or no JSON.
var historyKeys = map[session.Dimension]string{
	session.ByReason: `CASE WHEN NOT json_valid(e.payload) THEN ''
		WHEN json_type(e.payload, '$.reason') = 'text' THEN json_extract(e.payload, '$.reason') ELSE '' END`,
	session.ByDay: `substr(e.at, 1, 10)`,
	session.ByHost: `coalesce((SELECT host FROM main.watchdog_sessions
		WHERE run_id = e.aggregate_id COLLATE BINARY), '')`,
}

// selectHistory converts the times of other writers to our form, to the millisecond, if SQLite understands them.
const selectHistory = ` AS key, count(*) FROM (SELECT aggregate_id, CAST(payload AS TEXT) AS payload,
			CASE WHEN timestamp GLOB '????-??-?? ??:??:??.??????' THEN CAST(timestamp AS TEXT)
			ELSE strftime('%Y-%m-%d %H:%M:%f', timestamp) || '000' END AS at
		FROM main.events WHERE event_type = ?1 COLLATE BINARY AND aggregate_type = ?2 COLLATE BINARY) AS e
	WHERE e.at >= ?3 AND e.at < ?4 GROUP BY key ORDER BY key`

// History implements [session.Store]. The counts are ordered by their keys. It does not count events of other writers
// whose times SQLite does not understand. It reads all stored cancels.
func (s *Store) History(ctx context.Context, h session.HistoryQuery) ([]session.CancelCount, error) {
	if err := h.Validate(); err != nil {
		return nil, err
	}
	return readRows(ctx, s, "the history of cancels", func(rows *sql.Rows) (c session.CancelCount, err error) {
		err = rows.Scan(&c.Key, &c.Count)
		return c, err
	}, "SELECT "+historyKeys[h.By]+selectHistory,
		event.Cancel, event.AggregateType, formatTime(h.From), formatTime(h.To))
}
