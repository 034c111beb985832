package session

import (
	"encoding/json"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
)

// A keptRun is a run whose row is kept. The roster's mutex guards what changes.
type keptRun struct {
	run       *watchdog.Watchdog
	attempt   int
	threshold time.Duration
	// written is the last activity that the row shows, or the attach, by the clock of the lease. Quiet tells that the row
	// may say that the run is quiet.
	written    time.Duration
	quiet      bool
	tried      time.Duration   // the latest activity that the row may show, because an answer was lost
	dormant    bool            // it had nothing new for long, and there is no reason to look at it soon
	own        time.Duration   // the threshold of the host's for this run, or 0
	allowance  time.Duration   // that the row has
	state      json.RawMessage // that the row has
	recheck    bool            // the next flush writes the row, such as to learn whether it is still this attempt's
	syncFailed bool            // at the last try
	skips      skips
}

// A look is what a keeper sees of a run at an instant of the lease's clock. The last activity was after one instant and
// at latest at the other, by the same clock: the run is asked in between, and the clock goes on. Both are [NoActivity]
// if there was none.
type look struct {
	at, after, latest, silence time.Duration
}

func (r *keptRun) look(l *heldLease) look {
	before := l.now()
	silence, signalled := handle.Of(r.run.Context()).Silence()
	if !signalled {
		return look{before, NoActivity, NoActivity, 0}
	}
	return look{before, max(before-silence, 0), max(l.now()-silence, 0), silence}
}

// woke reports whether the row says that the run is silent, although it has had something new since.
func (r *keptRun) woke(seen look) bool { return r.quiet && seen.after > r.written }

// rowBehind returns the row as one that is behind. The activity that it shows is all that is certain of it: the run
// woke up after that.
func (r *keptRun) rowBehind() RowBehind {
	return RowBehind{RunID: r.run.ID(), Attempt: r.attempt, Written: r.written}
}

// wrote notes what became of a write of the row.
func (r *keptRun) wrote(f Freshness, became outcome, err error) {
	switch {
	case err != nil: // the row may have been written all the same
		r.recheck, r.quiet, r.tried = true, r.quiet || f.Quiet, f.Activity
	case became == stayed:
		r.recheck = true
	default:
		r.written, r.quiet, r.allowance = max(f.Activity, r.written), f.Quiet, f.Allowance
		if f.State != nil {
			r.state = f.State
		}
	}
}

// forgetRow forgets what the row says, of which a new lease knows nothing.
func (r *keptRun) forgetRow() { r.quiet, r.written, r.tried, r.allowance = false, 0, 0, 0 }
