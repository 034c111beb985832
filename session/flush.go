package session

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// flush writes what has changed since the last flush. The rows of live runs are written also if the ends of others
// cannot be: they must not go stale.
func (k *Keeper) flush(ctx context.Context) { _, _ = k.writeNews(ctx) } // the log has the error

// writeNews is flush. It returns what there was to write, and an error if the store failed.
func (k *Keeper) writeNews(ctx context.Context) (news, error) {
	l, err := k.leaseOfRuns(ctx)
	news := k.changes(l)
	ended := k.end(ctx, news.ends) // first: the lease vouches for no run whose end is not written
	news.behind = append(news.behind, k.unended(news.quiet)...)
	var gone []string
	if l != nil && err == nil {
		gone, err = k.freshen(ctx, l, news)
	}
	if err = errors.Join(err, ended); err != nil || len(news.fresh)+len(news.ends) > 0 {
		k.logOutage(ctx, &k.outage.rows, err)
	}
	for _, runID := range gone {
		k.requestSync(runID)
	}
	return news, err
}

// leaseOfRuns returns the lease, and begins one if there are runs and none. It is nil if there is neither.
func (k *Keeper) leaseOfRuns(ctx context.Context) (*heldLease, error) {
	if k.Live() == 0 {
		return k.current(), nil
	}
	ctx, cancel := context.WithTimeout(ctx, k.cfg.RecordTimeout)
	defer cancel()
	return k.lease(ctx)
}

// news is what a flush has to write.
type news struct {
	at time.Duration // of the lease's clock, before the first run was asked
	// doubts are those of the lease then.
	doubts int
	fresh  []Freshness
	woke   []bool // of each of fresh: until it is written, the row says that the run is silent
	ends   []Ending
	quiet  []RowBehind // of runs that have ended: until that is written, the row says that the run is silent
	// behind are the rows that cannot be written now and whose runs a sweeper could take for silent. Partial tells that
	// not all runs were asked, so that there may be more.
	behind  []RowBehind
	partial bool
	// unrecorded is how many runs have ended whose store does not have the event yet.
	unrecorded int
}

// changes returns what has changed. It asks the runs without the mutex: a question can end a run with its parent, and
// so call the host. Without a lease it looks only for runs that have ended.
func (k *Keeper) changes(l *heldLease) (all news) {
	if l != nil {
		all.at, all.doubts = l.now(), k.doubtsOf(l)
	}
	asked, dormant := k.snapshot(l == nil)
	all.partial = dormant
	now := k.now()
	for part := range slices.Chunk(asked, askedTogether) {
		for i := range part {
			part[i].ended = part[i].run.Context().Err() != nil
		}
		for i := range part {
			part[i].dormant = k.addNews(&all, &part[i], l, now)
		}
	}
	k.noteDormant(asked)
	clear(asked)
	k.copies = asked[:0]
	return all
}

// addNews adds what a run has new. It reports whether the run is dormant.
func (k *Keeper) addNews(n *news, r *copiedRun, l *heldLease, now time.Duration) (dormant bool) {
	switch paused := r.skips.paused(now); {
	case r.ended:
		k.addEnded(n, &r.keptRun, paused)
	case l == nil:
	case paused:
		if r.woke(r.look(l)) || r.quiet && k.rose(&r.keptRun) {
			n.behind = append(n.behind, r.rowBehind())
		}
	default:
		f, woke, wanted := k.freshness(&r.keptRun, l)
		if wanted {
			n.fresh, n.woke = append(n.fresh, f), append(n.woke, woke)
		}
		return !wanted && (f.Quiet || f.Activity == NoActivity)
	}
	return false
}

// addEnded adds how a run has ended, unless its row is paused.
func (k *Keeper) addEnded(n *news, r *keptRun, paused bool) {
	if r.quiet {
		n.quiet = append(n.quiet, r.rowBehind())
	}
	if !paused {
		n.addEnd(k.endOf(r), r.run)
	}
}

// maxRetries is how many runs a flush has try again to record how they ended.
const maxRetries = 100

// addEnd adds how a run has ended. A row does not say that a run was cancelled before its event does: if the process
// dies meanwhile, nobody would know why.
func (n *news) addEnd(e Ending, run *watchdog.Watchdog) {
	if e.Status == Cancelled && !handle.Of(run.Context()).Recorded(n.unrecorded < maxRetries) {
		n.unrecorded++
		return
	}
	n.ends = append(n.ends, e)
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

// freshness returns what the row is to say, whether the run woke up, and whether the row has to be written now. A row
// says the latest instant that the activity can have had, and is behind if that is too early for certain.
func (k *Keeper) freshness(r *keptRun, l *heldLease) (f Freshness, woke, wanted bool) {
	seen := r.look(l)
	allowance := k.allowance(r.run, r.own)
	woke = r.woke(seen) || r.quiet && allowance > r.allowance
	quiet := seen.latest != NoActivity && verdict.Quiet(r.threshold, seen.silence)
	wanted = r.recheck || quiet != r.quiet || woke || allowance != r.allowance ||
		verdict.ShouldWriteRow(r.threshold, r.written, seen.after, seen.at)
	f = Freshness{
		RunID: r.run.ID(), Attempt: r.attempt, Activity: NoActivity, Quiet: quiet,
		Allowance: allowance, Threshold: k.thresholdBeside(allowance, r.own),
	}
	if seen.latest != NoActivity {
		f.Activity = max(seen.latest, r.written, r.tried)
	}
	if !wanted {
		return f, woke, false
	}
	if state := k.stateOf(r.run); !bytes.Equal(state, r.state) {
		f.State = state
	}
	return f, woke, true
}

// endOf returns how a run that has ended did so, with the state where its command's end or the steps of the next
// attempt need that. The mutex is not held.
func (k *Keeper) endOf(r *keptRun) Ending {
	runID := r.run.ID()
	e := Ending{RunID: runID, Attempt: r.attempt, Status: Interrupted, Age: r.run.SinceActivity()}
	cause := context.Cause(r.run.Context())
	var stop *watchdog.Stop
	switch {
	case errors.As(cause, &stop) && stop.RunID == runID:
		e.Status, e.Reason = Cancelled, stop.Code
	case errors.Is(cause, watchdog.ErrComplete):
		e.Status, e.Reason = Finished, record.CompleteReason
	case errors.Is(cause, watchdog.ErrClosed):
		e.Status = Finished
	}
	goesOn := e.Reason == "" // in the same window, at the next attach
	if of := handle.Of(r.run.Context()).State(); goesOn && of.Loop != nil || of.Command.Outcome != "" {
		e.State = k.stateOf(r.run)
	}
	return e
}

// freshen writes the rows of live runs, vouches for those that are written, and returns the runs whose rows are not
// theirs any more.
func (k *Keeper) freshen(ctx context.Context, l *heldLease, news news) (gone []string, err error) {
	write := func(ctx context.Context, fresh []Freshness) (Skipped, error) {
		return k.cfg.Store.Freshen(ctx, l.id, fresh)
	}
	skipped, err := batch[Freshness]{k, news.fresh, Freshness.key, write}.writeAll(ctx)
	if k.lost(l, err) != nil && errors.Is(err, ErrLeaseExpired) {
		wake(k.soon)
	}
	gone, told := k.noteWritten(l, news, skipped, err)
	told.log(k.logger())
	return gone, err
}

// noteWritten notes what became of the rows, and for which of them the lease vouches.
func (k *Keeper) noteWritten(l *heldLease, news news, became outcomes, err error) (gone []string, told behindNews) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held != l {
		return nil, told
	}
	for i, f := range news.fresh {
		r := k.runs[f.RunID]
		if r == nil || r.attempt != f.Attempt {
			continue
		}
		r.wrote(f, became[f.RunID], err)
		switch {
		case err != nil:
		case became[f.RunID] == wentAway:
			gone = append(gone, f.RunID)
		case became[f.RunID] == stayed && news.woke[i]:
			news.behind = append(news.behind, r.rowBehind())
		}
	}
	if err == nil && !news.partial && news.doubts == l.doubts {
		told = l.vouchFor(news.at, news.behind)
	}
	return gone, told
}

// wrote notes what became of a write of the row. The keeper's mutex is held.
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
