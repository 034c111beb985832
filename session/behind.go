package session

import (
	"cmp"
	"log/slog"
	"slices"
	"time"
)

// MaxBehind is how many rows a lease names as behind. If there are more, it vouches for nothing more until there are
// fewer.
const MaxBehind = 64

// A RowBehind is a row that says less than its run did: a run that was silent woke up, ended, or may be silent for
// longer now, and its process cannot write that, because another transaction has locked the row, or a trigger or a
// constraint of the host's refuses it. Nobody knows the run's silence from the row, so that a sweeper judges it only up
// to Written.
type RowBehind struct {
	RunID   string `json:"run"`
	Attempt int    `json:"attempt"`
	// Written is the instant up to which the row is written, by the clock of the lease. A later one than the lease vouches
	// for counts as that.
	Written time.Duration `json:"written"`
}

func (b RowBehind) key() AttemptID { return AttemptID{b.RunID, b.Attempt} }

// vouchedFor returns the instant up to which the lease vouches for a row, and whether it names the row as behind.
func (l *Lease) vouchedFor(a AttemptID) (upTo time.Duration, behind bool) {
	upTo = max(l.Vouched, l.Covered)
	for _, b := range l.Behind {
		if b.key() == a {
			return min(b.Written, upTo), true
		}
	}
	return upTo, false
}

// refutes reports whether the lease names the row of a session as behind, and does not vouch for the silence by which
// it was judged.
func (l *Lease) refutes(judged Session) bool {
	upTo, behind := l.vouchedFor(AttemptID{judged.RunID, judged.Attempt})
	return behind && judged.Silence > max(upTo-judged.Activity, 0)
}

// rowBehind returns the row as one that is behind. The activity that it shows is all that is certain of it: the run
// woke up after that.
func (r *keptRun) rowBehind() RowBehind {
	return RowBehind{RunID: r.run.ID(), Attempt: r.attempt, Written: r.written}
}

// unended returns those of rows of runs that have ended which do not say so yet.
func (k *Keeper) unended(ended []RowBehind) []RowBehind {
	return slices.DeleteFunc(ended, func(b RowBehind) bool {
		r := k.kept(b.RunID)
		return r == nil || r.attempt != b.Attempt
	})
}

// vouchFor vouches for all runs as they were at an instant, but for those whose rows are behind. The keeper's mutex is
// held.
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
