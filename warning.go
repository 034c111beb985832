package watchdog

import (
	"time"

	"github.com/seed62658d38/watchdog/internal/machine"
)

// A Warning says that a run has used up a chosen fraction of its wall clock ([Budget].WarnAt) or of a counted limit
// ([Spend].WarnAt), so that it can wrap up. After an extension the fractions count anew, of the longer budget.
type Warning struct {
	RunID    string
	Fraction float64
	// Elapsed and Budget are of the window, extensions included. Remaining is as [Watchdog.Remaining] has it.
	// Of a counted limit Usage says that, Elapsed is what the wall clock showed, and the others are 0.
	Elapsed, Budget, Remaining time.Duration
	// Usage is how far a counted limit is used, nil for the wall clock.
	Usage *Usage
	// At is when the warning was due to be seen, in UTC to the microsecond.
	At time.Time
}

func (r *run) warningOf(o *machine.Notice) Warning {
	v := &o.Verdict
	return Warning{
		RunID: r.Node.Run, Fraction: v.Fraction, Elapsed: v.Used, Budget: v.Allowed, Remaining: o.Remaining,
		Usage: usageOfRecord(r.Node.Run, o.Spend), At: o.At,
	}
}
