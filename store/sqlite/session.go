package sqlite

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// A query returns each row as one text: scanning eleven columns takes the driver longer than SQLite needs to find them.
// readSession parses the text, so that another program's invalid value is an unreadable row and not a failed query.
const (
	columnSeparator = "\x1f" // none of our columns contains it
	nullText        = "\x1e"
)

var sessionText = strings.Replace(strings.Join(sessionColumns, ` || '`+columnSeparator+`' || `),
	"last_event_at", "coalesce(last_event_at, '"+nullText+"')", 1)

// readSession parses a row. Its error wraps [session.ErrUnreadable].
func readSession(text string) (session.Session, error) {
	r := strings.Split(text, columnSeparator)
	if len(r) != len(sessionColumns) {
		return session.Session{}, fmt.Errorf("%w: run %s: a column has the control character %q",
			session.ErrUnreadable, clip(r[0]), columnSeparator)
	}
	s := session.Session{
		RunID: r[0], Parent: r[1], Status: session.Status(r[2]), Host: r[7], Reason: watchdog.StopReason(r[10]),
	}
	var problems []error
	number := func(column int) int64 {
		n, err := strconv.ParseInt(r[column], 10, 64)
		if err != nil || n < 0 {
			problems = append(problems, fmt.Errorf("column %s: %q is not a number from 0",
				sessionColumns[column], clip(r[column])))
		}
		return n
	}
	moment := func(column int) time.Time {
		at, err := time.Parse(timeLayout, r[column])
		if err != nil {
			problems = append(problems, fmt.Errorf("column %s: %q is not a time of the form %q",
				sessionColumns[column], clip(r[column]), timeLayout))
		}
		return at
	}
	s.CreatedAt, s.StartedAt = moment(3), moment(6)
	if r[4] != nullText {
		s.LastEventAt = moment(4)
	}
	s.Threshold, s.Attempt, s.Resumes = time.Duration(number(5)), int(number(8)), int(number(9))
	switch s.Status {
	case session.Active, session.Cancelled, session.Interrupted, session.Finished:
	default:
		problems = append(problems, fmt.Errorf("column status: there is no status %q", clip(r[2])))
	}
	if len(problems) > 0 {
		return session.Session{}, fmt.Errorf("%w: run %s: %w", session.ErrUnreadable, s.RunID, errors.Join(problems...))
	}
	return s, nil
}

// databaseTime is the SQL for the current time, which SQLite knows to the millisecond. databaseMicros is the same
// time as a number.
const (
	databaseTime   = `strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'`
	databaseMicros = `CAST(strftime('%s', 'now') AS INTEGER) * 1000000 ` +
		`+ CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 1000`
)

// nullTime returns NULL for a zero time.
func nullTime(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return formatTime(t)
}
