package sqlite

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/storerows"
	"github.com/seed62658d38/watchdog/session"
)

// A query returns each row as one text: scanning nineteen columns takes the driver longer than SQLite needs to find
// them. readSession parses the text, so that another program's invalid value is an unreadable row and no failed query.
const (
	columnSeparator = "\x1f" // none of our columns contains it
	nullText        = "\x1e"
)

// A row is in a lease only if that is for its attempt: a version that knows nothing of leases counts the attempt up,
// and so takes the row out. A row that left its lease because its process was seen to die is lost until its next
// attempt: leased is that attempt with a minus. It is no column of its own, so that every version which writes leases
// overwrites it.
const (
	inLease   = `lease IS NOT NULL AND leased = attempt`
	isLost    = `lease IS NULL AND leased = -attempt AND status = 'active'`
	rowLease  = `CASE WHEN ` + inLease + ` THEN lease ELSE '' END`
	rowActive = `CASE WHEN ` + inLease + ` THEN coalesce(activity, -1) ELSE 0 END`

	// rowThreshold is negative if the column is: such a row is unreadable.
	rowThreshold = `CASE WHEN ` + inLease + ` AND threshold >= 0
		THEN CASE WHEN ` + isAllowed + ` THEN 0 ELSE coalesce(own_threshold, 0) END ELSE threshold END`
	isAllowed    = `allowance IS NOT NULL AND allowed = attempt`
	rowAllowance = `CASE WHEN ` + inLease + ` AND ` + isAllowed + ` THEN allowance ELSE 0 END`
	rowQuiet     = inLease + ` AND activity IS NOT NULL AND coalesce(quiet_since, quiet_due) IS NOT NULL`
	rowSilence   = `CASE WHEN ` + rowQuiet + ` THEN max(coalesce((
			SELECT ` + rowVouched + ` FROM main.watchdog_leases AS l WHERE l.id = lease), 0) - activity, 0) ELSE 0 END`
	rowIsBehind = `CASE WHEN ` + rowQuiet + ` THEN coalesce((
			SELECT ` + ofBehind + ` IS NOT NULL FROM main.watchdog_leases AS l WHERE l.id = lease), 0) ELSE 0 END`

	// vouchedFor is the instant up to which a lease l vouches for all rows but those that it names as behind, ofBehind
	// that of a row which it names, and rowVouched that of any row.
	vouchedFor = `max(l.vouched, coalesce(l.covered, 0))`
	ofBehind   = `CASE WHEN l.behind IS NOT NULL THEN (
			SELECT min(json_extract(b.value, '$.written'), ` + vouchedFor + `) FROM json_each(l.behind) AS b
			WHERE json_extract(b.value, '$.run') = run_id AND json_extract(b.value, '$.attempt') = attempt) END`
	rowVouched = `coalesce(` + ofBehind + `, ` + vouchedFor + `)`

	// rowEnded is the number of an ended row's end, which is its time: see nextEndNumber.
	rowEnded = `CASE WHEN status <> 'active' AND typeof(ended) = 'integer' THEN max(ended, 0) ELSE 0 END`
	// What was noted is void if the row is not as it was then. noteSigns notes how the row is.
	isNoted = `coalesce(warned_attempt = attempt AND warned_lease = ` + rowLease + ` AND warned_beat = ` + rowActive + `
		AND warned_last_event IS last_event_at, 0)`
	noteSigns = ` warned_attempt = attempt, warned_lease = ` + rowLease + `, warned_beat = ` + rowActive + `,
		warned_last_event = last_event_at`
	rowWarned = `CASE WHEN warned_at IS NOT NULL AND ` + isNoted + ` THEN warned_at ELSE '` + nullText + `' END`
	isStopped = `stop_failed IS NOT NULL AND status = 'active' AND ` + isNoted
	// rowStopped is 1 if the agents could not be stopped, and 2 more if the session is active.
	rowStopped = `CASE WHEN status = 'cancelled' THEN coalesce(stop_failed <> 0, 0) WHEN ` + isStopped + `
		THEN 2 + (stop_failed <> 0) ELSE 0 END`
)

// sessionText is the SQL for the text of a row, in the order of sessionFields. Most of the last fields cost a row that
// has none of them little.
var sessionText = concatenated(
	"run_id", "parent", "status", "created_at", "coalesce(last_event_at, '"+nullText+"')", rowThreshold, "started_at",
	"host", "attempt", "resumes", "reason", rowEnded,
	`CASE WHEN coalesce(lease, leased, warned_at, claim, stop_failed, state, expired_lease, start_due) IS NULL
		THEN '`+strings.Join([]string{"", "0", "0", nullText, "", "0", "", "0", "0", "0", "", ""}, columnSeparator)+`' ELSE `+
		concatenated(rowLease, rowActive, rowSilence, rowWarned, "coalesce(claim, '')", rowStopped,
			"coalesce(state, '')", rowIsBehind, "coalesce("+isLost+", 0)", rowAllowance, "coalesce(expired_lease, '')",
			rowStart)+` END`,
)

func concatenated(columns ...string) string {
	return strings.Join(columns, ` || '`+columnSeparator+`' || `)
}

var sessionFields = []string{
	"run_id", "parent", "status", "created_at", "last_event_at", "threshold", "started_at", "host", "attempt", "resumes",
	"reason", "ended", "lease", "activity", "silence", "warned_at", "claim", "stop_failed", "state", "behind", "leased",
	"allowance", "expired_lease", "start_due",
}

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
		Allowance: time.Duration(r.number(21, 0)), Start: r.start(23),
	}
	if ended := r.number(11, 0); ended > 0 {
		s.EndedAt = time.UnixMicro(ended).UTC()
	}
	if s.Lease == "" { // a program that does not know the column can have put the row into another lease
		s.Expired = session.ExpiredLease(storerows.ParseExpired(f[22], s.Attempt))
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
	switch text := r.fields[field]; {
	case text == "":
		return nil
	case !json.Valid([]byte(text)):
		r.problems = append(r.problems, fmt.Errorf("column %s does not hold JSON", sessionFields[field]))
		return nil
	default:
		return json.RawMessage(text)
	}
}
