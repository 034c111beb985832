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

// A row comes as one text, because a driver takes longer for eleven columns than SQLite for finding them. What is in it is looked at here, so that
// a value which another program wrote, and which is none, does not fail a page.
const (
	columnEnd = "\x1f" // which no column of ours has
	absent    = "\x1e"
)

var sessionText = strings.Replace(strings.Join(sessionColumns, ` || '`+columnEnd+`' || `), "last_event_at", "coalesce(last_event_at, '"+absent+"')", 1)

// readSession understands a row. Its error wraps [session.ErrUnreadable].
func readSession(text string) (session.Session, error) {
	r := strings.Split(text, columnEnd)
	if len(r) != len(sessionColumns) {
		return session.Session{}, fmt.Errorf("%w: run %s: a column has the control character %q", session.ErrUnreadable, clip(r[0]), columnEnd)
	}
	s := session.Session{
		RunID: r[0], Parent: r[1], Status: session.Status(r[2]), Host: r[7], Reason: watchdog.StopReason(r[10]),
	}
	var flaws []error
	number := func(column int) int64 {
		n, err := strconv.ParseInt(r[column], 10, 64)
		if err != nil || n < 0 {
			flaws = append(flaws, fmt.Errorf("column %s: %q is not a number from 0", sessionColumns[column], clip(r[column])))
		}
		return n
	}
	moment := func(column int) time.Time {
		at, err := time.Parse(timeLayout, r[column])
		if err != nil {
			flaws = append(flaws, fmt.Errorf("column %s: %q is not a time of the form %q", sessionColumns[column], clip(r[column]), timeLayout))
		}
		return at
	}
	s.CreatedAt, s.StartedAt = moment(3), moment(6)
	if r[4] != absent {
		s.LastEventAt = moment(4)
	}
	s.Threshold, s.Attempt, s.Resumes = time.Duration(number(5)), int(number(8)), int(number(9))
	switch s.Status {
	case session.Active, session.Cancelled, session.Interrupted, session.Finished:
	default:
		flaws = append(flaws, fmt.Errorf("column status: there is no status %q", clip(r[2])))
	}
	if len(flaws) > 0 {
		return session.Session{}, fmt.Errorf("%w: run %s: %w", session.ErrUnreadable, s.RunID, errors.Join(flaws...))
	}
	return s, nil
}

// databaseTime is the SQL for the time now, which SQLite has to the millisecond; databaseMicros is the same as a number.
const (
	databaseTime   = `strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'`
	databaseMicros = `CAST(strftime('%s', 'now') AS INTEGER) * 1000000 + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 1000`
)

// nullTime is a time that may be none.
func nullTime(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return formatTime(t)
}
