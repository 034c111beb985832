package watchdog

import (
	"time"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/record"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/verdict"
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

func (w *Watchdog) warning(v verdict.Verdict, now time.Duration) Warning {
	warning := Warning{
		RunID: w.id, Fraction: v.Fraction, Elapsed: v.Used, Budget: v.Allowed, Usage: w.usage(v),
		At: record.Truncate(w.clock.now()),
	}
	if warning.Usage == nil {
		warning.Remaining = verdict.Remaining(w.limits.Limits, w.seen, now)
	}
	return warning
}

func (w *Watchdog) tell(warnings []Warning) {
	if w.onWarning == nil {
		return
	}
	each(warnings, func(warning Warning) {
		w.callHost("OnWarning", func() { w.onWarning(warning) })
	})
}
