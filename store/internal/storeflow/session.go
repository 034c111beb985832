package storeflow

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/session"
)

// A Row is a row that a search for sessions found.
type Row interface {
	// Place is the position of the session in the order of the search.
	Place() session.Place
	// Session reads the row. An error says why it cannot be read.
	Session() (session.Session, error)
}

// AfterOf returns the place after which a page begins. It fails if the query is not valid.
func AfterOf(after string, query interface{ Validate() error }) (session.Place, error) {
	last, err := session.ParsePlace(after)
	return last, cmp.Or(query.Validate(), err)
}

// StalledPage sorts the rows that a search found, at most one more than the limit, and makes a page of them.
func StalledPage[R Row](now time.Time, rows []R, limit int) session.Page {
	slices.SortFunc(rows, func(a, b R) int { return a.Place().Compare(b.Place()) })
	return session.Page(ListPage(now, rows, limit))
}

// ListPage is [StalledPage] for the rows of a list, which have their order.
func ListPage[R Row](now time.Time, rows []R, limit int) session.ListPage {
	page := session.ListPage{Now: now}
	if len(rows) > limit {
		rows = rows[:limit]
		page.Next = rows[limit-1].Place().String()
	}
	for _, r := range rows {
		one, err := r.Session()
		if err != nil {
			page.Unreadable = append(page.Unreadable, err)
			continue
		}
		page.Sessions = append(page.Sessions, one)
	}
	return page
}

// LeaseOf returns the columns lease and allowance of a run that attaches. Without a lease there is no allowance.
func LeaseOf(run session.Session) (lease *string, allowance *int64) {
	if run.Lease == "" {
		return nil, nil
	}
	if run.Allowance > 0 {
		allowance = (*int64)(&run.Allowance)
	}
	return &run.Lease, allowance
}

// StartPause returns the pause of a start in microseconds, negative if none is to follow.
func StartPause(pause time.Duration) int64 {
	if pause == session.NoMoreStarts {
		return -1
	}
	return RoundUp(session.StartPause(pause))
}

// RoundUp returns a duration in microseconds, rounded up, so that a minimum stays a minimum.
func RoundUp(d time.Duration) (microseconds int64) {
	microseconds = d.Microseconds()
	if d%time.Microsecond > 0 {
		microseconds++
	}
	return microseconds
}

// Behind returns the column behind of a lease, NULL if it names no rows.
func Behind(l session.Lease) *string {
	if len(l.Behind) == 0 {
		return nil
	}
	text, _ := json.Marshal(l.Behind) // cannot fail: it has strings and numbers only
	return NullJSON(text)
}

// ReadBehind reads the column behind of a lease, where NULL is the null of JSON.
func ReadBehind(l *session.Lease, text string) error {
	if err := json.Unmarshal([]byte(text), &l.Behind); err != nil {
		return fmt.Errorf("lease %s: column behind: %w", l.ID, err)
	}
	return nil
}

// ExpiredText returns the column expired_lease of the rows that leave a lease.
func ExpiredText(l session.Lease) string {
	return fmt.Sprintf("%d %d %s", l.Looks, l.RenewedAt.UnixMicro(), l.ID)
}

// ReadExpired reads the column expired_lease. A text of another program says nothing.
func ReadExpired(text string) (l session.ExpiredLease) {
	fields := strings.SplitN(text, " ", 3)
	if len(fields) < 3 {
		return l
	}
	looks, looksErr := strconv.Atoi(fields[0])
	renewed, renewedErr := strconv.ParseInt(fields[1], 10, 64)
	if looksErr != nil || renewedErr != nil {
		return l
	}
	return session.ExpiredLease{ID: fields[2], Looks: looks, RenewedAt: time.UnixMicro(renewed).UTC()}
}

// A Judged is what a store found of the row of a session that was judged: whether it is as it was judged, whether it
// could be locked, whether nobody else has claimed it, and whether what was asked for was done.
type Judged struct{ AsJudged, Locked, Free, Done bool }

// Outcome is empty if the session is as it was judged and free, and yet nothing was done: its end may be stored.
func (j Judged) Outcome() (session.Outcome, error) {
	switch {
	case j.Done:
		return session.Done, nil
	case !j.AsJudged:
		return session.Changed, nil
	case !j.Locked:
		return "", session.ErrLocked
	case !j.Free:
		return session.Taken, nil
	default:
		return "", nil
	}
}

// StopFailed returns the column stop_failed for a claim, NULL if no agents were stopped.
func StopFailed(c session.ClaimRequest) *bool {
	if !c.Stopped {
		return nil
	}
	return &c.StopFailed
}

// Encode returns the rows of the events of a warning, or of a cancel, which has one at least.
func Encode[R any](
	doing string, judged session.Session, events []event.Event, encode func([]event.Event) (R, error),
) (R, error) {
	rows, err := encode(events)
	if err == nil && doing == "cancel" && len(events) == 0 {
		err = errors.New("there is no cancel event")
	}
	if err != nil {
		return rows, fmt.Errorf("%s session %s: %w", doing, judged.RunID, err)
	}
	return rows, nil
}

// EndID returns the ID of the end that a cancel stores, its last event; nothing without events.
func EndID(c session.CancelRequest) (id string) {
	for _, e := range c.Events {
		id = e.ID
	}
	return id
}

// NullJSON returns NULL for no JSON.
func NullJSON(text json.RawMessage) *string {
	if len(text) == 0 {
		return nil
	}
	all := string(text)
	return &all
}

// FirstInvalid returns the error of the first ending that is not valid.
func FirstInvalid(ends []session.Ending) error {
	for _, e := range ends {
		if err := e.Validate(); err != nil {
			return err
		}
	}
	return nil
}
