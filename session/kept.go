package session

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"slices"
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

// A heldLease is the lease that a keeper has. The roster's mutex guards what changes.
type heldLease struct {
	id, host string
	promise  time.Duration
	began    time.Time
	// beat is the number of the latest renewal that was tried, answered that of the latest one that the store answered.
	beat, answered int64
	// All activity up to vouched is in the rows, and up to covered in those that are not behind. Behind is replaced and
	// never changed. Over tells that there are more.
	vouched, covered time.Duration
	behind           []RowBehind
	over             bool
	// doubts is how often it was doubted that the database has what it acknowledged: see doubtRows.
	doubts int
	fails  bool // renewals fail
}

func (l *heldLease) now() time.Duration { return time.Since(l.began) }

// bare returns the lease as the store gets it, without a clock and what it vouches for.
func (l *heldLease) bare() Lease {
	return Lease{ID: l.id, Host: l.host, Promise: l.promise, Beat: l.beat}
}

// renewal counts the beat up, and returns the lease as its next renewal writes it.
func (l *heldLease) renewal() Lease {
	l.beat++
	next := l.bare()
	next.Clock, next.Vouched, next.Covered, next.Behind = l.now(), l.vouched, l.covered, l.behind
	return next
}

// vouchFor vouches for all runs as they were at an instant, but for those whose rows are behind.
func (l *heldLease) vouchFor(at time.Duration, behind []RowBehind) (told behindNews) {
	over := len(behind) > MaxBehind
	told.over, told.rows = over && !l.over, len(behind)
	if l.over = over; over {
		return told
	}
	slices.SortFunc(behind, func(a, b RowBehind) int { return cmp.Compare(a.RunID, b.RunID) })
	for _, b := range behind {
		if !slices.ContainsFunc(l.behind, func(known RowBehind) bool { return known.key() == b.key() }) {
			told.named = append(told.named, b)
		}
	}
	l.covered, l.behind = max(l.covered, at), behind
	if len(behind) == 0 {
		l.vouched = max(l.vouched, at)
	}
	return told
}

// behindNews is what the log is to say of rows that are behind: those that are named now and were not before, and that
// there are too many.
type behindNews struct {
	named []RowBehind
	rows  int
	over  bool
}

func (n behindNews) log(to *slog.Logger) {
	for _, b := range n.named {
		to.Warn("the row of a run that was silent cannot be written; it is not judged for silence until it is",
			"run", b.RunID, "attempt", b.Attempt)
	}
	if n.over {
		to.Error("too many rows of runs that were silent cannot be written; no run of this process is judged for silence",
			"rows", n.rows, "most", MaxBehind)
	}
}
