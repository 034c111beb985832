package watchdog

import (
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A Warning says that a run has used up a chosen fraction of its wall clock ([Budget].WarnAt), so that it can wrap up. After
// an extension the fractions count anew, of the longer budget.
type Warning struct {
	RunID    string
	Fraction float64
	// Elapsed and Budget are of the window, extensions included. Remaining is what is left to work in, less the reserve.
	Elapsed, Budget, Remaining time.Duration
	// At is when the warning was due to be seen, in UTC to the microsecond.
	At time.Time
}

func (w *Watchdog) warning(v verdict.Verdict) Warning {
	return Warning{
		RunID: w.id, Fraction: v.Fraction, Elapsed: v.Used, Budget: v.Allowed,
		Remaining: max(v.Allowed-v.Used-w.reserve, 0), At: truncate(w.clock.now()),
	}
}

func (w *Watchdog) recordWarnings(warnings []Warning) {
	for _, warning := range warnings {
		if err := w.recordWarning(warning); err != nil {
			w.log().Error("watchdog could not record a warning", "run", w.id, "fraction", warning.Fraction, "error", err)
		}
	}
}

func (w *Watchdog) recordWarning(warning Warning) error {
	name := fmt.Sprintf("%v of %v", warning.Fraction, warning.Budget)
	return w.append(w.newEvent(EventWarning, warning.At, name, warningPayload{
		Reason: string(verdict.WallClock), SessionStartedAt: stamp(w.startedAt), WarnedAt: stamp(warning.At),
		ElapsedSeconds: wholeSeconds(warning.Elapsed), ConfiguredBudgetSeconds: warning.Budget.Seconds(),
		Fraction: warning.Fraction, RemainingSeconds: wholeSeconds(warning.Remaining), Parent: w.parentID,
	}))
}

func (w *Watchdog) tell(warnings []Warning) {
	if w.onWarning == nil {
		return
	}
	for _, warning := range warnings {
		w.callHost("OnWarning", func() { w.onWarning(warning) })
	}
}
