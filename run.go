package watchdog

import (
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/clocks"
)

// StartSkew is how far in the future a start may lie: hosts whose clocks differ a little can take runs over from each
// other.
const StartSkew = time.Minute

// A Run is what a watchdog guards. The zero value is a run of its own that begins now; with a Store in the [Config] ID
// must be set.
type Run struct {
	// ID names the run; it is the aggregate ID of its events. At most [event.MaxAggregateID] characters, none of them a
	// control character and not all of them white space. (A table that a host brings may hold fewer.) Empty means a random
	// ID, see [Watchdog.ID]; with a Store it is an error, because nobody would find the run again.
	ID string
	// StartedAt is when the run's window began. Zero means that the Store keeps it: New and Resume look it up before
	// anything else, and return the store's error if they cannot. A run of which the Store has nothing begins at the start
	// that the Keeper has of it, or now. That is stored before New returns, as an [event.Start], so that whoever attaches
	// next, also in another process at the same time, has the same start. Without a Store zero means now.
	//
	// A host that has persisted the start passes it unchanged on every attach. Any time zone; it is kept in UTC, truncated
	// to the microsecond. A start of now at each attach would give the run all of its time again, and a run that was
	// stopped would go on without a [Resume]: a start that is later than what the store has of the run is logged as a
	// warning.
	StartedAt time.Time
	// Parent is the ID of the run that this one is a layer of; empty for a run of its own.
	Parent string
}

func (r Run) check(now time.Time) error {
	switch flaw, of := event.Flaw(r.ID, event.MaxAggregateID), event.Flaw(r.Parent, event.MaxAggregateID); {
	case r.ID == "":
		return fmt.Errorf("%w run ID: it is empty; with a Store the run needs the ID that its session is stored under",
			ErrInvalid)
	case flaw != "":
		return fmt.Errorf("%w run ID: it %s", ErrInvalid, flaw)
	case of != "" && r.Parent != "":
		return fmt.Errorf("%w run ID: the parent of run %s %s", ErrInvalid, r.ID, of)
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
