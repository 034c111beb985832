package storeflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/storerows"
	"github.com/seed62658d38/watchdog/session"
)

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
	return storerows.RoundUp(storerows.StartPause(pause))
}

// Behind returns the column behind of a lease, NULL if it names no rows.
func Behind(l session.Lease) *string {
	if len(l.Behind) == 0 {
		return nil
	}
	text, _ := json.Marshal(l.Behind) // cannot fail: it has strings and numbers only
	behind := string(text)
	return &behind
}

// ReadBehind reads the column behind of a lease, where NULL is the null of JSON.
func ReadBehind(l *session.Lease, text string) error {
	if err := json.Unmarshal([]byte(text), &l.Behind); err != nil {
		return fmt.Errorf("lease %s: column behind: %w", l.ID, err)
	}
	return nil
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
	doing string, judged session.Session, events []watchdog.Event, encode func([]watchdog.Event) (R, error),
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

// CheckEnds returns the error of the first invalid ending.
func CheckEnds(ends []session.Ending) error {
	for _, e := range ends {
		if err := e.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// NullJSON returns NULL for no JSON.
func NullJSON(text json.RawMessage) *string {
	if len(text) == 0 {
		return nil
	}
	all := string(text)
	return &all
}

// LeaseExpired is the error of a call for a lease that does not live.
func LeaseExpired(id string) error {
	return fmt.Errorf("%w: lease %s has expired, or there is none", session.ErrLeaseExpired, id)
}

// Locked wraps [session.ErrLocked], too, if a lock was not to be had in time.
func Locked(isLocked bool, err error) error {
	if isLocked {
		return fmt.Errorf("%w: %w", session.ErrLocked, err)
	}
	return err
}
