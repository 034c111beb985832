package watchdog

import (
	"time"

	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A Warning says that a run has used up a chosen fraction of its wall clock ([Budget].WarnAt), so that it can wrap up.
// After an extension the fractions count anew, of the longer budget.
type Warning struct {
	RunID    string
	Fraction float64
	// Elapsed and Budget are of the window, extensions included. Remaining is as [Watchdog.Remaining] has it.
	Elapsed, Budget, Remaining time.Duration
	// At is when the warning was due to be seen, in UTC to the microsecond.
	At time.Time
}

func (w *Watchdog) warning(v verdict.Verdict, now time.Duration) Warning {
	return Warning{
		RunID: w.id, Fraction: v.Fraction, Elapsed: v.Used, Budget: v.Allowed,
		Remaining: verdict.Remaining(w.limits.Limits, w.seen, now), At: record.Truncate(w.clock.now()),
	}
}

func (w *Watchdog) tell(warnings []Warning) {
	if w.onWarning == nil {
		return
	}
	each(warnings, func(warning Warning) {
		w.callHost("OnWarning", func() { w.onWarning(warning) })
	})
}
