package session

import (
	"cmp"
	"log/slog"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/record"
)

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

func newHeldLease(host string, promise time.Duration) *heldLease {
	return &heldLease{
		id: record.NewWindow(), host: host, promise: promise, began: time.Now(), beat: 1, answered: 1,
	}
}

// now returns the time since the lease began.
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
