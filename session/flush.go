package session

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/seam"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// flush writes what has changed since the last flush. The rows of live runs are written also if the ends of others
// cannot be: they must not go stale.
func (k *Keeper) flush(ctx context.Context) {
	l, err := k.leaseOfRuns(ctx)
	news := k.changes(l)
	var gone []string
	if l != nil && err == nil {
		gone, err = k.freshen(ctx, l, news)
	}
	if err = errors.Join(err, k.end(ctx, news.ends)); err != nil || len(news.fresh)+len(news.ends) > 0 {
		k.logOutage(ctx, &k.outage.rows, err)
	}
	k.requestSync(gone...)
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
	at    time.Duration // of the lease's clock, before the first run was asked
	fresh []Freshness
	ends  []Ending
	// behind tells that a sweeper could take a run for silent that was active: its row cannot be written now, or not all
	// runs were asked.
	behind bool
	// unrecorded is how many runs have ended whose store does not have the event yet.
	unrecorded int
}

// changes returns what has changed. It asks the runs without the mutex: a question can end a run with its parent, and
// so call the host. Without a lease it looks only for runs that have ended.
func (k *Keeper) changes(l *heldLease) (all news) {
	if l != nil {
		all.at = l.now()
	}
	asked, dormant := k.snapshot(l == nil)
	all.behind = dormant
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
		if !paused {
			n.addEnd(&r.keptRun)
		}
	case l == nil:
	case paused:
		n.behind = n.behind || r.quiet && r.look(l).after > r.written
	default:
		f, wanted := k.freshness(&r.keptRun, l)
		if wanted {
			n.fresh = append(n.fresh, f)
		}
		return !wanted && (f.Quiet || f.Activity == NoActivity)
	}
	return false
}

// maxRetries is how many runs a flush has try again to record how they ended.
const maxRetries = 100

// addEnd adds how a run has ended. A row does not say that a run was cancelled before its event does: if the process
// dies meanwhile, nobody would know why.
func (n *news) addEnd(r *keptRun) {
	e := r.ending()
	if e.Status == Cancelled && !seam.Recorded(r.run, n.unrecorded < maxRetries) {
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
	silence, signalled := seam.Silence(r.run)
	if !signalled {
		return look{before, NoActivity, NoActivity, 0}
	}
	return look{before, max(before-silence, 0), max(l.now()-silence, 0), silence}
}

// freshness returns what the row is to say, and whether it has to be written now. A row says the latest instant that
// the activity can have had, and is behind if that is too early for certain.
func (k *Keeper) freshness(r *keptRun, l *heldLease) (f Freshness, wanted bool) {
	seen := r.look(l)
	quiet := seen.latest != NoActivity && verdict.Quiet(r.threshold, seen.silence)
	wanted = r.recheck || quiet != r.quiet || r.quiet && seen.after > r.written ||
		verdict.ShouldWriteRow(r.threshold, r.written, seen.after, seen.at)
	f = Freshness{RunID: r.run.ID(), Attempt: r.attempt, Activity: NoActivity, Quiet: quiet}
	if seen.latest != NoActivity {
		f.Activity = max(seen.latest, r.written, r.tried)
	}
	if !wanted {
		return f, false
	}
	if state := k.stateOf(r.run); !bytes.Equal(state, r.state) {
		f.State = state
	}
	return f, true
}

// ending returns how a run that has ended did so.
func (r *keptRun) ending() Ending {
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
	return e
}

// freshen writes the rows of live runs, vouches for all of them if it can, and returns the runs whose rows are not
// theirs any more.
func (k *Keeper) freshen(ctx context.Context, l *heldLease, news news) (gone []string, err error) {
	write := func(ctx context.Context, fresh []Freshness) (Skipped, error) {
		return k.cfg.Store.Freshen(ctx, l.id, fresh)
	}
	skipped, err := batch[Freshness]{k, news.fresh, Freshness.key, write}.writeAll(ctx)
	if k.lost(l, err) != nil && errors.Is(err, ErrLeaseExpired) {
		wake(k.soon)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held != l {
		return nil, err
	}
	for _, f := range news.fresh {
		r, became := k.runs[f.RunID], skipped[f.RunID]
		if r == nil || r.attempt != f.Attempt {
			continue
		}
		if r.wrote(f, became, err) {
			news.behind = true
		}
		if err == nil && became == wentAway {
			gone = append(gone, f.RunID)
		}
	}
	if err == nil && !news.behind {
		l.vouched = max(l.vouched, news.at)
	}
	return gone, err
}

// wrote notes what became of a write of the row. It reports whether a sweeper could now take the run for silent that
// was active. The keeper's mutex is held.
func (r *keptRun) wrote(f Freshness, became outcome, err error) (behind bool) {
	switch {
	case err != nil: // the row may have been written all the same
		r.recheck, r.quiet, r.tried = true, r.quiet || f.Quiet, f.Activity
	case became == stayed:
		r.recheck = true
		return r.quiet && f.Activity > r.written
	default:
		r.written, r.quiet = max(f.Activity, r.written), f.Quiet
		if f.State != nil {
			r.state = f.State
		}
	}
	return false
}
