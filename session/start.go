package session

import (
	"context"
	"time"
)

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
