package watchdog

import (
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/record"
)

// StartSkew is how far in the future a start may lie: hosts whose clocks differ a little can take runs over from each
// other.
const StartSkew = time.Minute

// A Run is what a watchdog guards. The zero value is a run of its own that begins now; with a Store in the [Config] ID
// must be set, and StartedAt or Continue.
type Run struct {
	// ID names the run; it is the aggregate ID of its events. At most [MaxAggregateID] characters, none of them a control
	// character and not all of them white space. (A table that a host brings may hold fewer.) Empty means a random ID,
	// see [Watchdog.ID]; with a Store it is an error, because nobody would find the run again.
	ID string
	// StartedAt is when the run's window began, as the host persisted it: set once, when the run is created, and passed
	// unchanged on every attach. Any time zone; it is kept in UTC, truncated to the microsecond. Zero means now; with a
	// Store it is an error, because each restart would begin the wall clock again, but see Continue.
	StartedAt time.Time
	// Parent is the ID of the run that this one is a layer of; empty for a run of its own.
	Parent string
	// Continue has the Store say when the run began, for a host that keeps no more of a run than its ID; StartedAt is left
	// out then. New and Resume look it up, before anything else, and return the store's error if they cannot. A run of
	// which the Store has nothing begins now: that is stored before New returns, as an [EventStart], so that whoever
	// attaches next, also in another process at the same time, has the same start. A run that is stopped or complete is so
	// still, see [New]: to give new work a run, give it another ID. Without a Store the run begins now.
	Continue bool
}

func (r Run) check(now time.Time) error {
	switch flaw, of := record.TextFlaw(r.ID, MaxAggregateID), record.TextFlaw(r.Parent, MaxAggregateID); {
	case r.ID == "":
		return fmt.Errorf("%w run ID: it is empty; with a Store the run needs the ID that its session is stored under",
			ErrInvalid)
	case flaw != "":
		return fmt.Errorf("%w run ID: it %s", ErrInvalid, flaw)
	case of != "" && r.Parent != "":
		return fmt.Errorf("%w run ID: the parent of run %s %s", ErrInvalid, r.ID, of)
	case r.StartedAt.IsZero():
		return fmt.Errorf("%w start: it is zero; with a Store run %s needs the time at which it was created, "+
			"kept with its session, or Continue, for the Store to keep it", ErrInvalid, r.ID)
	case r.Continue:
		return fmt.Errorf("%w start: run %s has StartedAt, and Continue asks the Store for it; leave one of them out",
			ErrInvalid, r.ID)
	case r.StartedAt.Unix() < 0:
		return fmt.Errorf("%w start: it is before 1970, which no running clock shows; run %s started at %s",
			ErrInvalid, r.ID, clocks.Text(r.StartedAt))
	case r.StartedAt.Sub(now) > StartSkew:
		return fmt.Errorf("%w start: it is in the future; run %s started at %s, the clock shows %s; "+
			"check the clocks of both hosts",
			ErrInvalid, r.ID, clocks.Text(r.StartedAt), clocks.Text(now))
	}
	return nil
}

// An Attempt is one process's work at a run.
type Attempt struct {
	// Number counts the attempts from 1; zero is unknown.
	Number int
	// Lost tells that the process of the attempt before ended without recording anything: it was killed, or its host went
	// down.
	Lost bool
	// Stopped tells that a guard stopped the run before this attempt, as far as the keeper knows. New then reads the
	// run's events again: the stop may have come after it read them.
	Stopped bool
}
