package session

import (
	"context"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
)

// A Store keeps sessions and events in one database. Several goroutines and processes call its methods at once. The
// methods return when their context ends, and the error then wraps the context's.
type Store interface {
	watchdog.EventStore

	// Attach begins an attempt of a run. It makes the row, or takes the one that is there, sets Status to [Active] and
	// LastEventAt to now, and counts Attempt up. It takes RunID, Parent, Threshold, StartedAt and Host from its
	// argument, and leaves Resumes unchanged. It returns the row as it was before, with Attempt 0 if there was none,
	// and as it is. If the row cannot be read, Attach changes nothing and wraps [ErrUnreadable].
	Attach(ctx context.Context, s Session) (before, after Session, err error)
	// Freshen notes when sessions last had an event, in one statement for all. It never sets LastEventAt back. It
	// leaves a row alone that is not [Active] or has another Attempt, and returns the run as gone. A row that another
	// transaction has locked is not waited for, unless it is the only one: then for at most [LockWait].
	Freshen(ctx context.Context, fresh []Freshness) (Skipped, error)
	// End notes how attempts ended. It leaves a row alone that is not [Active] or has another Attempt, and treats
	// locked rows as Freshen does.
	End(ctx context.Context, ends []Ending) (Skipped, error)
	// Session returns the row of a run. The error wraps [ErrNotFound] or [ErrUnreadable].
	Session(ctx context.Context, runID string) (Session, error)

	// Stalled returns the active sessions that have had no event for longer than they may. Those that exceeded their
	// threshold first come first; run IDs order those that exceeded it at the same time. How long the call takes
	// depends on how many sessions it returns, not on how many are active. The first page has the rows that cannot be
	// read in Unreadable, at most a hundred.
	Stalled(ctx context.Context, q Query) (Page, error)
	// Cancel ends a session that is still as it was judged: Active, with the same Attempt and LastEventAt. It sets
	// Status to [Cancelled], sets Reason and Resumes as requested, appends the events, all in one transaction, and
	// notifies every [Listener]. If the session has changed, Cancel changes nothing and reports false. If another
	// transaction has locked the row, Cancel does not wait for it, and wraps [ErrLocked].
	Cancel(ctx context.Context, judged Session, c CancelRequest) (cancelled bool, err error)
	// Ended returns the runs whose sessions ended since a mark, and the mark for the next call. It is a cheap poll for
	// stores without a Listener. An empty mark means now: no run is returned. A run can be returned again.
	Ended(ctx context.Context, mark string) (runIDs []string, next string, err error)
	// History counts the cancels of a span of time, in one query. The counts are ordered by their keys.
	History(ctx context.Context, h HistoryQuery) ([]CancelCount, error)
}

// A Listener is a [Store] that notifies callers of cancels at once.
type Listener interface {
	// Listen calls ready when it listens, and then told with the run ID of every session that is cancelled. Cancels
	// before ready are not told. Listen returns an error if it loses its connection. When the context ends it returns
	// nil, or an error that wraps the context's.
	Listen(ctx context.Context, ready func(), told func(runID string)) error
}

// LockWait is how long a write of a single row waits for a transaction that has locked it.
const LockWait = time.Second

// Skipped are the runs of a batch that were not written. All others were. No run of a batch holds up another.
type Skipped struct {
	// Gone are runs whose row is not [Active], has another Attempt, or is missing. End leaves it empty.
	Gone []string
	// Locked are runs whose row another transaction has locked. They can be written later.
	Locked []string
	// Refused are runs whose row the database does not take as it would be, for example because of a trigger or a
	// constraint of the host's, each with an error that names the run. With more than sixteen the call returns an
	// error, and part of the batch can be written.
	Refused map[string]error
}

// A Freshness is how long ago a run had its last event.
type Freshness struct {
	RunID   string
	Attempt int
	Age     time.Duration
}

// An Ending is how an attempt ended: [Cancelled] with its reason, [Interrupted] or [Finished].
type Ending struct {
	RunID   string
	Attempt int
	Status  Status
	Reason  watchdog.StopReason
}

// Validate returns an error if no attempt ends with the status. The End of every store calls it.
func (e Ending) Validate() error {
	switch e.Status {
	case Cancelled, Interrupted, Finished:
		return nil
	default:
		return fmt.Errorf("end attempt %d of run %s: %q is not how an attempt ends; use %q, %q or %q",
			e.Attempt, e.RunID, e.Status, Cancelled, Interrupted, Finished)
	}
}

// A Query asks for stalled sessions.
type Query struct {
	// Threshold is for sessions without one of their own. A session is stalled after more than it.
	Threshold time.Duration
	// MinAge is the age from which a session can be stalled.
	MinAge time.Duration
	// Limit is the largest number of sessions to return, at least 1. After is where the page begins: the [Page].Next
	// of the page before, empty for the first.
	Limit int
	After string
}

// Validate returns an error if the limit is less than 1. The Stalled of every store calls it.
func (q Query) Validate() error {
	if q.Limit < 1 {
		return fmt.Errorf("find stalled sessions: the limit is %d; ask for at least 1", q.Limit)
	}
	return nil
}

// A Page is a page of stalled sessions.
type Page struct {
	Sessions []Session
	// Now is the database's time at the query.
	Now time.Time
	// Next begins the next page; empty if this is the last.
	Next string
	// Unreadable are errors that wrap [ErrUnreadable].
	Unreadable []error
}

// A CancelRequest says how to end a session: see [Store.Cancel].
type CancelRequest struct {
	Reason  watchdog.StopReason
	Resumes int
	Events  []watchdog.Event
}

// A Dimension is what cancels are counted by.
type Dimension string

// The dimensions.
const (
	ByReason Dimension = "reason" // of the event's payload
	ByDay    Dimension = "day"    // in UTC, as 2006-01-02
	ByHost   Dimension = "host"   // of the session's row, as it is now; empty for a run that has none
)

// A HistoryQuery asks for the counts of cancels, by whatever guard, whose events have a timestamp from From to before
// To.
type HistoryQuery struct {
	From, To time.Time
	By       Dimension
}

// A CancelCount is the number of cancels with one key.
type CancelCount struct {
	Key   string
	Count int
}
