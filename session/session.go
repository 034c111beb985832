package session

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/seed62658d38/watchdog"
)

// A Status is the state of a session.
type Status string

// The statuses.
const (
	// Active is a session that a process says it runs.
	Active Status = "active"
	// Cancelled is a session that a guard stopped; its Reason says why.
	Cancelled Status = "cancelled"
	// Interrupted is a session that was ended from outside, or whose process ended without writing how.
	Interrupted Status = "interrupted"
	// Finished is a session whose watchdog was closed.
	Finished Status = "finished"
)

// A Session is one row. Times are UTC to the microsecond, by the database's clock.
type Session struct {
	// RunID names the run. Parent names the run that it is a layer of.
	RunID, Parent string
	Status        Status
	// CreatedAt is when the row was made. LastEventAt is when the run had its last event; zero if it had none yet. That
	// of an active session with a lease is when the run was attached; later signs of life are in Activity.
	CreatedAt, LastEventAt time.Time
	// EndedAt is when the row was made to say that the run ended. It is zero for an active session, and where another
	// program wrote how it ended.
	EndedAt time.Time
	// Threshold is how long the run may have no event. Zero means the sweeper's threshold, [watchdog.NoLimit] for ever.
	Threshold time.Duration
	// Allowance is how long the run's own limits let it be silent, with the time that they take to end it; 0 for none.
	// While its lease lives, a sweeper waits for that, or for its own threshold if that is longer. A row has it only with
	// a Lease and without a Threshold. See [Store.Attach].
	Allowance time.Duration
	// StartedAt is the start of the run's window, as its watchdog has it.
	StartedAt time.Time
	// Host is where the latest attempt runs, Attempt its number, from 1.
	Host    string
	Attempt int
	// Resumes is how often a sweeper's policy had the run resumed.
	Resumes int
	// Reason is why the latest attempt was cancelled, or "complete" if the host said that the run has done its work.
	// Otherwise it is empty.
	Reason watchdog.StopReason

	// Lease names the [Lease] of the process that runs an active session; empty for a row of another writer, and for one
	// whose process was found dead.
	Lease string
	// Lost tells that a sweeper saw the process of an active session die while others lived: see [Lease].Lost. It is false
	// again as soon as a process attaches to the run, or claims it back. A store sets it.
	Lost bool
	// Expired is the lease that the latest attempt had and that expired: the run's process was found dead or cut off. The
	// row keeps it, also when the run has ended, until a process attaches to the run or claims it back. It is zero before
	// that. A store sets it.
	Expired ExpiredLease
	// Activity is the run's last activity by the clock of its lease, or [NoActivity]. It has a meaning only with a Lease.
	Activity time.Duration
	// Silence is how long the run has certainly been silent, as far as its lease vouches for it. It is 0 without a lease,
	// and for a run that has had something new within a minute or has not signalled since its attach. A store sets it.
	Silence time.Duration
	// Behind tells that the lease names the row, because its process cannot write it: see [RowBehind]. A store sets it.
	Behind bool
	// WarnedAt is when a sweeper warned of the cancel; zero if none did, or if the run has given a sign of life since.
	WarnedAt time.Time
	// Claim names the pass of a sweeper that took the session last, to end it: see [Store.Claim] and [Store.Cancel].
	Claim string
	// Stopped tells that a sweeper has stopped the agents of an active session, or tried to, and could not cancel it
	// then. It is false again as soon as the run gives a sign of life. A store sets it.
	Stopped bool
	// StopFailed tells that the agents of a session could not be stopped: of one that was cancelled, or is Stopped.
	StopFailed bool
	// Start tells that the run of a session that was cancelled is to be started again: see [Starts]. A store sets it.
	Start WantedStart
	// State is what the run's process says about the run, for others to show; nil for nothing. See [State].
	State json.RawMessage
}

// An ExpiredLease is what a session keeps of a [Lease] that expired.
type ExpiredLease struct {
	// ID names the lease. It is empty if none expired.
	ID string
	// Looks is how many looks in a row found that the lease is not renewed, 0 if that is not known. RenewedAt is the time
	// of its last renewal, by the database's clock.
	Looks     int
	RenewedAt time.Time
}

// SilentSince returns the time of the last event, or of the creation if there was no event yet.
func (s Session) SilentSince() time.Time {
	if s.LastEventAt.IsZero() {
		return s.CreatedAt
	}
	return s.LastEventAt
}

// HostLost reports whether the process of an active session was found dead or cut off, and no other has the run: its
// cancel has the reason [watchdog.SessionHostLost], and that of any other session [watchdog.SessionIdleTimeout].
func (s Session) HostLost() bool {
	return s.Status == Active && s.Lease == "" && (s.Expired.ID != "" || s.Lost)
}

// The errors of a [Store].
var (
	// ErrNotFound says that the run has no row. [Store.Session] wraps it.
	ErrNotFound = errors.New("no such session")
	// ErrUnreadable is wrapped by the methods of a store for a row of another writer that cannot be understood, such
	// as one with an invalid time. The error names the run. Such a row is never stalled.
	ErrUnreadable = errors.New("unreadable session")
	// ErrLocked says that another transaction has locked the row of a session or a lease. [Store.Attach], Cancel, Claim,
	// Warn and ExpireLease wrap it: nothing was done and nothing decided, and it can be tried again.
	ErrLocked = errors.New("row is locked by another transaction")
)

// permanent reports whether an error is about the stored data, not about the store.
func permanent(err error) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, ErrUnreadable) || errors.Is(err, watchdog.ErrUnreadableEvent)
}

// A WantedStart is the start of a cancelled run that is to go on.
type WantedStart struct {
	// Key names the start: it is the ID of the cancel event, and the same at each try. It is empty if no start is wanted.
	Key string
	// Tries is how often the start was claimed, also by those who died before they called anything.
	Tries int
	// Due is when it can be claimed again, by the database's clock: the end of a claim or of a pause.
	Due time.Time
}

// Starts is the part of a [Store] that keeps which cancelled runs are to be started again. A cancel says so with
// [CancelRequest].StartFor, and its row keeps it until the next attempt of the run, or until it is given up. So a start
// outlives whoever wanted it, and a row that has one is not to be deleted.
type Starts interface {
	// ClaimStart takes the start that has been due for the longest time, counts its Tries up, and returns the row. No
	// other call takes it for so long, by the database's clock. The error wraps [ErrNotFound] if none is due. A row that
	// another transaction has locked is skipped. If the row cannot be read, the error wraps [ErrUnreadable], and it is
	// claimed all the same, so that it holds up no other.
	//
	// A claim or a pause lasts for a day at most. One that would end later is over: the database's clock was set back.
	ClaimStart(ctx context.Context, lasts time.Duration) (Session, error)
	// PutOffStart has a start be due again after a pause from now, or not be wanted any more after [NoMoreStarts], if no
	// other claim has taken it since: Attempt, Key and Tries of the claimed row tell. It reports whether that was so. If
	// another transaction has locked the row for longer than [LockWait], it wraps [ErrLocked].
	PutOffStart(ctx context.Context, claimed Session, pause time.Duration) (done bool, err error)
}

// NoMoreStarts is the pause that gives a start up: see [Starts].
const NoMoreStarts = time.Duration(-1)

// MaxStartPause is the longest claim or pause of a start. A longer one, as it is stored, began before the database's
// clock was set back, and is over.
const MaxStartPause = 24 * time.Hour

// StartPause returns how long a claim or a pause of a start lasts: as it was asked for, but not less than no time, and
// at most [MaxStartPause]. A store calls it.
func StartPause(asked time.Duration) time.Duration { return min(max(asked, 0), MaxStartPause) }
