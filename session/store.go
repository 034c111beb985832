package session

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A Store keeps sessions, leases and events in one database. Several goroutines and processes call its methods at once.
// The methods return when their context ends, and the error then wraps the context's. What one of them writes to rows
// is one transaction; a row that another transaction has locked is skipped or refused, as each method says, and never
// holds up the others.
type Store interface {
	watchdog.EventStore
	Leases
	Starts

	// Attach begins an attempt of a run. It makes the row, or takes the one that is there, sets Status to [Active] and
	// LastEventAt to now, and counts Attempt up. It takes RunID, Parent, Threshold, StartedAt, Host, Lease and State from
	// its argument, leaves Resumes unchanged, and clears the other fields. With a Lease and without a Threshold it takes
	// Allowance, too. It returns the row as it was before, with Attempt 0 if there was none, and as it is. If the row
	// cannot be read, Attach changes nothing and wraps [ErrUnreadable]; if the lease does not live, it wraps
	// [ErrLeaseExpired]; if another transaction has locked the row for longer than [LockWait], it wraps [ErrLocked]. If
	// the row was Active, the attempt before is over: every [Listener] tells of the run, and Ended the lease of that
	// attempt, if it had one.
	//
	// With an Attempt in its argument Attach makes a row again that was lost: it changes nothing if there is a row with
	// that attempt or a later one, and else the row has exactly that one.
	Attach(ctx context.Context, s Session) (before, after Session, err error)
	// Freshen writes the activity of sessions, in one statement for all, and puts them into the lease. It leaves a row
	// alone that is not [Active] or has another Attempt, and returns the run as gone. It never takes an activity back
	// that is in the row, by the clock of this lease. A row that another transaction has locked is not waited for, unless
	// it is the only one: then for at most [LockWait]. If the lease does not live, Freshen changes nothing and wraps
	// [ErrLeaseExpired].
	Freshen(ctx context.Context, lease string, fresh []Freshness) (Skipped, error)
	// End notes how attempts ended, when they had their last event, and what State says then. It leaves a row alone that
	// is not [Active] or has another Attempt, and treats locked rows as Freshen does.
	End(ctx context.Context, ends []Ending) (Skipped, error)
	// Session returns the row of a run. The error wraps [ErrNotFound] or [ErrUnreadable].
	Session(ctx context.Context, runID string) (Session, error)

	// Stalled returns the active sessions that have had no event for longer than they may: those without a lease by the
	// database's clock, and those of a lease that has not expired by what it vouches for. A run that has not signalled
	// since its attach is not silent while its lease lives. A session with an Allowance may be silent for that, and for
	// the threshold of the query if that is longer. Those that exceeded their threshold, or their allowance, first come
	// first; run IDs order those that exceeded it at the same time. How long the call takes depends on how many sessions
	// it returns and on how many leases there are, not on how many sessions are active. The first page has the rows that
	// cannot be read in Unreadable, at most a hundred.
	Stalled(ctx context.Context, q Query) (Page, error)
	// Claim takes a session for one sweeper, which stops its agents and then cancels it: only if the session is still as
	// it was judged, [Session].Stopped too, and if no other claim on it lasts, by the database's clock. If the end of the
	// run's window is stored already, the row is made to say so instead: see [EndStored]. A claim can also note that the
	// agents were stopped.
	Claim(ctx context.Context, judged Session, c ClaimRequest) (Outcome, error)
	// Warn sets WarnedAt and appends the events, in one transaction, only if the session is still as it was judged. The
	// warning is void as soon as the session gives a sign of life.
	Warn(ctx context.Context, judged Session, events []watchdog.Event) (Outcome, error)
	// Cancel ends a session that is still as it was judged: Active, with the same attempt, lease and signs of life, and
	// not claimed by another. It sets Status to [Cancelled], sets Reason, Resumes, StopFailed, Claim and Start as
	// requested, appends the events, all in one transaction, notifies every [Listener], and has Ended tell the session's
	// lease. If
	// the session has changed, Cancel changes nothing. If an event with the ID of the cancel event is stored already, the
	// row is made to say what that says instead, and no event is appended: see [EndStored]. If another transaction has
	// locked the row, Claim, Warn and Cancel do not wait for it, and wrap [ErrLocked].
	Cancel(ctx context.Context, judged Session, c CancelRequest) (Outcome, error)
	// History counts the cancels of a span of time, in one query. The counts are ordered by their keys.
	History(ctx context.Context, h HistoryQuery) ([]CancelCount, error)
}

// An Outcome is what became of a call about a session that was judged.
type Outcome string

// The outcomes.
const (
	// Done is a session that was claimed, warned or cancelled as requested.
	Done Outcome = "done"
	// Changed is a session that is not as it was judged any more: it woke up, ended, or was taken over.
	Changed Outcome = "changed"
	// Taken is a session that another sweeper has claimed.
	Taken Outcome = "taken"
	// EndStored is a session whose end was stored before, by its own process or another guard, which the row did not say.
	// It does now.
	EndStored Outcome = "end_stored"
)

// A Listener is a [Store] that notifies callers of cancels and takeovers at once.
type Listener interface {
	// Listen calls ready when it listens, and then told with the run ID of every session that is cancelled, or whose
	// attempt is followed by another. What was before ready is not told. Listen returns an error if it loses its
	// connection. When the context ends it returns nil, or an error that wraps the context's.
	Listen(ctx context.Context, ready func(), told func(runID string)) error
}

// A BatchCanceller is a [Store] that cancels several sessions at the price of one: in one transaction. A store that
// wraps another and changes its Cancel has to change CancelAll as well.
type BatchCanceller interface {
	// CancelAll does for each session what the Cancel of the Store does, all in one transaction, and returns the outcomes
	// in the order of its argument. An empty outcome is that of a session about which nothing was decided or written,
	// because its row is locked, for example: call Cancel for it. None holds up the others. If CancelAll returns an error,
	// it has written all or, as after a row that the database refuses, nothing.
	CancelAll(ctx context.Context, all []BatchedCancel) ([]Outcome, error)
}

// A BatchedCancel is one of the cancels of a [BatchCanceller]: its fields are the arguments of Cancel.
type BatchedCancel struct {
	Judged  Session
	Request CancelRequest
}

// LockWait is how long a write of a single row waits for a transaction that has locked it.
// It is less than the shortest promise of a [Lease].
const LockWait = time.Second / 2

// Skipped are the runs of a batch that were not written. All others were. No run of a batch holds up another.
type Skipped struct {
	// Gone are runs whose row is not [Active], has another Attempt, or is missing. End leaves it empty.
	Gone []string
	// Locked are runs whose row another transaction has locked. They can be written later.
	Locked []string
	// Failed are runs whose row the database does not take as it would be, for example because of a trigger or a
	// constraint of the host's, each with an error that names the run. With more than sixteen the call returns an
	// error, and part of the batch can be written.
	Failed map[string]error
}

// An AttemptID names an attempt at a run.
type AttemptID struct {
	RunID   string
	Attempt int
}

// A Freshness is a run's last activity.
type Freshness struct {
	RunID   string
	Attempt int
	// Activity is by the clock of the lease, or [NoActivity].
	Activity time.Duration
	// Quiet tells that the run has had nothing new for so long that a sweeper may look at it: see [Session].Silence.
	Quiet bool
	// Allowance is that of the row from now on, 0 for none, as for a row with a Threshold.
	Allowance time.Duration
	// State is the new State of the row; nil leaves it as it is.
	State json.RawMessage
}

// An Ending is how an attempt ended: [Cancelled] with its reason, [Interrupted] or [Finished].
type Ending struct {
	RunID   string
	Attempt int
	Status  Status
	Reason  watchdog.StopReason
	// Age is how long ago the run had its last event.
	Age time.Duration
	// State is the last State of the row; nil leaves it as it is.
	State json.RawMessage
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
	// Threshold is for sessions without one of their own, and the least for those with an Allowance. A session is stalled
	// after more than it.
	Threshold time.Duration
	// MinAge is the age from which a session can be stalled.
	MinAge time.Duration
	// Limit is the largest number of sessions to return, at least 1. After is where the page begins: the [Page].Next
	// of the page before, empty for the first.
	Limit int
	After string
}

// Validate returns an error if the limit is less than 1. The Stalled of every store calls it.
func (q Query) Validate() error { return validateLimit("find stalled sessions", q.Limit) }

func (q Query) limit(s Session) time.Duration {
	return verdict.SessionThreshold(s.Threshold, q.Threshold, s.Allowance)
}

func validateLimit(doing string, limit int) error {
	if limit < 1 {
		return fmt.Errorf("%s: the limit is %d; ask for at least 1", doing, limit)
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

// A ClaimRequest says who takes a session: see [Store.Claim].
type ClaimRequest struct {
	// By names the pass, and is in the row as [Session].Claim.
	By string
	// For is how long the claim lasts.
	For time.Duration
	// EndID is the ID that the end of the run's window has, whoever writes it.
	EndID string
	// Stopped notes in the row that the agents were stopped, and StopFailed that this failed: see [Session].Stopped.
	// Without Stopped the row keeps what it says.
	Stopped, StopFailed bool
}

// A CancelRequest says how to end a session: see [Store.Cancel].
type CancelRequest struct {
	// By names who cancels. A row whose Claim it is can be cancelled, and one that nobody has claimed.
	By         string
	Reason     watchdog.StopReason
	Resumes    int
	StopFailed bool
	// StartFor has the run be started again, and claims that start for so long for whoever cancels: see [Starts]. With 0
	// no start is wanted.
	StartFor time.Duration
	// Events are appended in their order. The last is the cancel event.
	Events []watchdog.Event
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

// Validate returns an error for an unknown dimension. The History of every store calls it.
func (h HistoryQuery) Validate() error {
	switch h.By {
	case ByReason, ByDay, ByHost:
		return nil
	}
	return fmt.Errorf("count cancels: there is no dimension %q", h.By)
}

// A CancelCount is the number of cancels with one key.
type CancelCount struct {
	Key   string
	Count int
}

// A Lister is a [Store] that lists sessions, for a page or a command line to show them. The stores of this module are
// Listers.
type Lister interface {
	// List returns sessions, those that were made last first; run IDs, the largest first, order those made at the same
	// time. How long the call takes depends on how many sessions it returns, and on how many it passes over that the
	// query's conditions leave out.
	List(ctx context.Context, q ListQuery) (ListPage, error)
}

// A ListQuery says which sessions to list. The conditions that are not empty must all hold.
type ListQuery struct {
	// Live wants only sessions that are [Active], Ended only the others. With both, or neither, all are wanted.
	Live, Ended bool
	// Parent, Host and Reason are those of the session. [ReasonFailed] wants those that [Session.Failed], and "complete"
	// wants those that are complete and have not.
	Parent, Host string
	Reason       watchdog.StopReason
	// Limit is the largest number of sessions to return, at least 1. After is where the page begins: the
	// [ListPage].Next of the page before, empty for the first.
	Limit int
	After string
}

// Validate returns an error if the limit is less than 1. The List of every store calls it.
func (q ListQuery) Validate() error { return validateLimit("list sessions", q.Limit) }

// A ListPage is a page of a list of sessions.
type ListPage struct {
	Sessions []Session
	// Now is the database's time at the query.
	Now time.Time
	// Next begins the next page; empty if this is the last.
	Next string
	// Unreadable are errors that wrap [ErrUnreadable], of rows that would be on this page.
	Unreadable []error
}
