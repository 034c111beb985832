package session

import (
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// maxRetries is how many runs a flush has try again to record how they ended.
const maxRetries = 100

// news is what a flush has to write.
type news struct {
	at     time.Duration // of the lease's clock, before the first run was asked
	doubts int           // those of the lease then
	fresh  []Freshness
	woke   []bool // of each of fresh: until it is written, the row says that the run is silent
	soon   []soonDue
	ends   []Ending
	quiet  []RowBehind // of runs that have ended: until that is written, the row says that the run is silent
	// behind are the rows that cannot be written now and whose runs a sweeper could take for silent. Partial tells that
	// not all runs were asked, so that there may be more.
	behind  []RowBehind
	partial bool
	// unrecorded is how many runs have ended whose store does not have the event yet.
	unrecorded int
}

// A soonDue is a row that is written if others are.
type soonDue struct {
	Freshness
	of *keptRun
}

// takeAlong adds the rows that are due soon, if there is one to write.
func (n *news) takeAlong(rows *rowBuilder) {
	if len(n.fresh) > 0 {
		for _, f := range n.soon {
			f.State = rows.newState(f.of)
			n.fresh, n.woke = append(n.fresh, f.Freshness), append(n.woke, false)
		}
	}
	n.soon = nil
}

// add adds what a run has new. It reports whether the run is dormant.
func (n *news) add(r *copiedRun, rows *rowBuilder, l *heldLease, now time.Duration) (dormant bool) {
	switch paused := r.skips.paused(now); {
	case r.ended:
		n.addEnded(&r.keptRun, rows, paused)
	case l == nil:
	case paused:
		if r.woke(r.look(l)) || r.quiet && rows.rose(&r.keptRun) {
			n.behind = append(n.behind, r.rowBehind())
		}
	default:
		f, woke, wanted := rows.freshness(&r.keptRun, l)
		switch {
		case wanted:
			n.fresh, n.woke = append(n.fresh, f), append(n.woke, woke)
		case verdict.TakeAlong(r.threshold, r.written, f.Activity):
			n.soon = append(n.soon, soonDue{f, &r.keptRun})
		}
		return !wanted && (f.Quiet || f.Activity == NoActivity)
	}
	return false
}

// addEnded adds how a run has ended, unless its row is paused.
func (n *news) addEnded(r *keptRun, rows *rowBuilder, paused bool) {
	if r.quiet {
		n.quiet = append(n.quiet, r.rowBehind())
	}
	if !paused {
		n.addEnd(rows.ending(r), r.run)
	}
}

// addEnd adds how a run has ended. A row does not say that a run was cancelled before its event does: if the process
// dies meanwhile, nobody would know why.
func (n *news) addEnd(e Ending, run *watchdog.Watchdog) {
	if e.Status == Cancelled && !handle.Of(run.Context()).Recorded(n.unrecorded < maxRetries) {
		n.unrecorded++
		return
	}
	n.ends = append(n.ends, e)
}
