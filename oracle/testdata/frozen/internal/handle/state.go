package handle

import (
	"time"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/record"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/verdict"
)

// A State is what there is to show of a run: see the State of package session.
type State struct {
	Extended  time.Duration // how much more wall clock it was given
	Paused    time.Duration
	Warned    int
	WrappedUp bool
	Holds     int               // that are open
	Command   record.CommandEnd // of a run that is complete
	Loop      []byte            // what it remembers of its steps, nil if it had none
}

// A Spend is how far one counted limit is used: see the Usage of the root. Refused is how many calls did not fit, since
// this attach.
type Spend struct {
	Limit, Tool, Scope, Currency     string
	Used, Admitted, Allowed, Refused int64
	// Reserve is the part that is kept for wrapping up, WarnAt holds the fractions at which the run is warned; they are
	// not to be changed.
	Reserve int64
	WarnAt  []float64
}

// Add returns how far a limit of two runs is used. A shared one is the same for both, each of which knows of it as of
// another moment; the calls that were refused are each run's own.
func (s Spend) Add(more Spend) Spend {
	s.Refused += more.Refused
	if s.Scope != "" {
		s.Used, s.Admitted, s.Allowed = max(s.Used, more.Used), max(s.Admitted, more.Admitted), max(s.Allowed, more.Allowed)
		return s
	}
	s.Used = verdict.AddCount(s.Used, more.Used)
	s.Admitted = verdict.AddCount(s.Admitted, more.Admitted)
	s.Allowed = verdict.AddCount(s.Allowed, more.Allowed)
	return s
}
