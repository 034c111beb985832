package session

import (
	"context"
	"errors"
	"time"

	"github.com/seed62658d38/watchdog"
)

// A Status is where a session stands.
type Status string

// The statuses.
const (
	// Active is a session that a process says it runs.
	Active Status = "active"
	// Cancelled is one that a guard stopped; its Reason says why.
	Cancelled Status = "cancelled"
	// Interrupted is one that was ended from outside, or whose process ended without a word.
	Interrupted Status = "interrupted"
	// Finished is one whose watchdog was closed.
	Finished Status = "finished"
)

// A Session is one row. Times are UTC to the microsecond, by the database's clock.
type Session struct {
	// RunID names the run, Parent the run that it is a layer of.
	RunID, Parent string
	Status        Status
	// CreatedAt is when the row was made, LastEventAt when the run had its last event: zero if it had none yet.
	CreatedAt, LastEventAt time.Time
	// Threshold is how long the run may be without an event; zero is the sweeper's, [watchdog.NoLimit] for ever.
	Threshold time.Duration
	// StartedAt is the start of the run's window, as its watchdog has it.
	StartedAt time.Time
	// Host is where the latest attempt runs, Attempt its number, from 1.
	Host    string
	Attempt int
	// Resumes is how often a sweeper's policy had the run resumed.
	Resumes int
	// Reason is why the latest attempt was cancelled, and empty for one that was not.
	Reason watchdog.StopReason
}

// SilentSince is the last event or, before there was one, the creation.
func (s Session) SilentSince() time.Time {
	if s.LastEventAt.IsZero() {
		return s.CreatedAt
	}
	return s.LastEventAt
}

// The errors of a [Store].
var (
	// ErrNotFound is wrapped by what [Store.Session] returns for a run that has no row.
	ErrNotFound = errors.New("no such session")
	// ErrUnreadable is wrapped by what a store returns for a row of another writer that cannot be understood, such as one with a time that is none. The error names
	// the run; such a row is never stalled.
	ErrUnreadable = errors.New("unreadable session")
)

// A Store keeps sessions and events in one database. Its methods are called from several goroutines and processes at once; they return when their
// context ends, and the error then wraps the context's.
type Store interface {
	watchdog.EventStore

	// Attach begins an attempt of a run: it makes the row, or takes the one that is there, sets Status to [Active], LastEventAt to now, and counts Attempt up. Of the argument it
	// takes RunID, Parent, Threshold, StartedAt and Host. It returns the row as it was before, with Attempt 0 where there was none, and as it is.
	// Resumes stays as it was. A row that cannot be read is an error that wraps [ErrUnreadable], and stays as it is.
	Attach(ctx context.Context, s Session) (before, after Session, err error)
	// Freshen notes when sessions last had an event. It never puts LastEventAt back, and leaves alone a row that is not [Active] or has another Attempt: their run IDs are
	// returned. It is one statement for all.
	Freshen(ctx context.Context, fresh []Freshness) (gone []string, err error)
	// End notes how attempts ended. It leaves alone a row that is not [Active] or has another Attempt.
	End(ctx context.Context, ends []Ending) error
	// Session returns the row of a run. The error wraps [ErrNotFound] or [ErrUnreadable].
	Session(ctx context.Context, runID string) (Session, error)

	// Stalled returns sessions that have had no event for longer than they may, those first that exceeded it first; in time that depends on how many it returns and not on how many are
	// active. Of those that exceeded it at once the run IDs
	// decide. Rows that cannot be read are in the Unreadable of the first page, a hundred of them at most.
	Stalled(ctx context.Context, q Query) (Page, error)
	// Cancel ends a session that is as it was judged: Active, with the same Attempt and LastEventAt. It sets Status to [Cancelled] and Reason, and Resumes as given, and appends the events, all
	// in one transaction, and has those told who [Listener.Listen]. It reports false, and has done nothing, where the session is not like that any more.
	Cancel(ctx context.Context, judged Session, c CancelRequest) (cancelled bool, err error)
	// Ended returns the runs whose sessions ended since a mark, and the mark for the next call: a light poll for stores that nobody can listen to. An empty mark is now: no run is
	// returned. A run can be returned again.
	Ended(ctx context.Context, mark string) (runIDs []string, next string, err error)
	// History counts the cancels of a stretch of time, in one query. The counts are ordered by their keys.
	History(ctx context.Context, h HistoryQuery) ([]CancelCount, error)
}

// A Listener is a [Store] that tells at once of sessions that are cancelled.
type Listener interface {
	// Listen calls told with the run ID of every session that is cancelled, until the context ends, which may be an error that wraps the context's, or the connection is
	// lost, which is one. It first calls ready, once it
	// listens: what was cancelled before that is not told.
	Listen(ctx context.Context, ready func(), told func(runID string)) error
}

// A Freshness is when a run had its last event: how long ago.
type Freshness struct {
	RunID   string
	Attempt int
	Age     time.Duration
}

// An Ending is how an attempt ended: [Cancelled], with its reason, [Interrupted] or [Finished].
type Ending struct {
	RunID   string
	Attempt int
	Status  Status
	Reason  watchdog.StopReason
}

// A Query asks for stalled sessions.
type Query struct {
	// Threshold is that of sessions without one of their own. A session is stalled after more than it.
	Threshold time.Duration
	// MinAge is how old a session has to be, at least.
	MinAge time.Duration
	// Limit is how many are returned at most, at least 1; After where the page begins: the [Page.Next] of the one before, empty for the first.
	Limit int
	After string
}

// A Page are stalled sessions.
type Page struct {
	Sessions []Session
	// Now is the database's clock at the query.
	Now time.Time
	// Next begins the next page. It is empty where this is the last.
	Next string
	// Unreadable are errors that wrap [ErrUnreadable].
	Unreadable []error
}

// A Cancel is how a session is ended: see [Store.Cancel].
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

// A HistoryQuery asks for the counts of cancels, by whatever guard, from one time to before another, by the timestamps of their events.
type HistoryQuery struct {
	From, To time.Time
	By       Dimension
}

// A CancelCount is how many cancels there were.
type CancelCount struct {
	Key   string
	Count int
}
