package session

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A flusher writes into the rows what the runs have new.
type flusher struct {
	roster *roster
	rows   *rowBuilder
	leases *leaseKeeper
	ends   *endWriter
	outage *outage
	copies []copiedRun // the room of the last snapshot, for the next
}

// flush writes what has changed since the last flush. The rows of live runs are written also if the ends of others
// cannot be: they must not go stale.
func (f *flusher) flush(ctx context.Context) { _, _ = f.writeNews(ctx) } // the log has the error

// writeNews is flush. It returns what there was to write, and an error if the store failed.
func (f *flusher) writeNews(ctx context.Context) (news, error) {
	l, err := f.leases.ofRuns(ctx)
	news := f.changes(l)
	ended := f.ends.write(ctx, news.ends) // first: the lease vouches for no run whose end is not written
	news.behind = append(news.behind, f.roster.unended(news.quiet)...)
	var gone []string
	if l != nil && err == nil {
		gone, err = f.freshen(ctx, l, news)
	}
	if err = errors.Join(err, ended); err != nil || len(news.fresh)+len(news.ends) > 0 {
		f.outage.note(ctx, &f.outage.rows, err)
	}
	for _, runID := range gone {
		f.roster.request(runID)
	}
	return news, err
}

// changes returns what has changed. It asks the runs without a mutex. Without a lease it looks only for runs that have
// ended.
func (f *flusher) changes(l *heldLease) (all news) {
	if l != nil {
		all.at, all.doubts = l.now(), f.roster.doubtsOf(l)
	}
	asked, dormant := f.roster.snapshot(f.copies, l == nil)
	all.partial = dormant
	now := f.roster.now()
	for part := range slices.Chunk(asked, askedTogether) {
		for i := range part {
			part[i].ended = part[i].run.Context().Err() != nil
		}
		for i := range part {
			part[i].dormant = all.add(&part[i], f.rows, l, now)
		}
	}
	all.takeAlong(f.rows)
	f.roster.noteDormant(asked)
	clear(asked)
	f.copies = asked[:0]
	return all
}

// freshen writes the rows of live runs, vouches for those that are written, and returns the runs whose rows are not
// theirs any more.
func (f *flusher) freshen(ctx context.Context, l *heldLease, news news) (gone []string, err error) {
	cfg := f.roster.cfg
	write := func(ctx context.Context, fresh []Freshness) (Skipped, error) {
		return cfg.Store.Freshen(ctx, l.id, fresh)
	}
	became, err := batch[Freshness]{f.roster, news.fresh, Freshness.key, write}.writeAll(ctx)
	if f.leases.lost(l, err) {
		wake(f.leases.expired)
	}
	gone, told := f.roster.noteWritten(l, news, became, err)
	told.log(cfg.logger())
	return gone, err
}

// noteWritten notes what became of the rows, and for which of them the lease vouches.
func (s *roster) noteWritten(l *heldLease, news news, became outcomes, err error) (gone []string, told behindNews) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held != l {
		return nil, told
	}
	for i, f := range news.fresh {
		r := s.attempt(f.key())
		if r == nil {
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
	if err == nil && !news.partial && news.doubts == l.doubts && !l.fails {
		told = l.vouchFor(news.at, news.behind)
	}
	return gone, told
}

const maxRetries = 100

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
		if r.woke(r.look(l)) || r.quiet && rows.allowance(r.run, r.own) > r.allowance {
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

// addEnded adds how a run has ended, unless its row is paused. A row does not say that a run was cancelled before its
// event does: if the process dies meanwhile, nobody would know why.
func (n *news) addEnded(r *keptRun, rows *rowBuilder, paused bool) {
	if r.quiet {
		n.quiet = append(n.quiet, r.rowBehind())
	}
	if paused {
		return
	}
	e := rows.ending(r)
	if e.Status == Cancelled && !handle.Of(r.run.Context()).Recorded(n.unrecorded < maxRetries) {
		n.unrecorded++
		return
	}
	n.ends = append(n.ends, e)
}

func (f Freshness) key() AttemptID { return AttemptID{f.RunID, f.Attempt} }

func (e Ending) key() AttemptID { return AttemptID{e.RunID, e.Attempt} }

type batch[E any] struct {
	roster *roster
	rows   []E
	keyOf  func(E) AttemptID
	write  func(context.Context, []E) (Skipped, error)
}

// writeAll writes the batch, and then the row alone that was locked for longest, if that is long enough to wait for it.
func (b batch[E]) writeAll(ctx context.Context) (outcomes, error) {
	if len(b.rows) == 0 {
		return nil, nil
	}
	all, err := b.writePart(ctx, b.rows)
	at := b.lockedLongest()
	if err != nil || at < 0 {
		return all, err
	}
	alone, err := b.writePart(ctx, b.rows[at:at+1])
	if err != nil {
		return nil, err
	}
	runID := b.keyOf(b.rows[at]).RunID
	all[runID] = alone[runID]
	return all, nil
}

// writePart writes some of the rows, and notes which of them were skipped. The log has the first of several refusals in
// a row.
func (b batch[E]) writePart(ctx context.Context, part []E) (outcomes, error) {
	cfg := b.roster.cfg
	ctx, cancel := context.WithTimeout(ctx, cfg.RecordTimeout)
	defer cancel()
	skipped, err := b.write(ctx, part)
	if err != nil {
		return nil, err
	}
	all := skipped.outcomes()
	for _, e := range part {
		key := b.keyOf(e)
		t := try{all[key.RunID], len(part) == 1, skipped.Failed[key.RunID]}
		if b.roster.noteTry(key, t) == 1 {
			cfg.logger().Error("the database refuses the row of a session; other rows are written",
				"run", key.RunID, "error", t.refused)
		}
	}
	return all, nil
}

// lockedLongest returns the place of the row that has been locked for longest, if it is time to wait for it, or -1. Of
// those that were tried together it is the one that is furthest behind. A row of an attempt that another has followed
// meanwhile is gone, so that there is nothing to wait for.
func (b batch[E]) lockedLongest() int {
	b.roster.mu.Lock()
	defer b.roster.mu.Unlock()
	now, at := b.roster.now(), -1
	var since, written time.Duration
	for i, e := range b.rows {
		r := b.roster.attempt(b.keyOf(e))
		if r == nil || !r.skips.locked || !verdict.TakeAlone(r.threshold, now-r.skips.since) {
			continue
		}
		if at < 0 || cmp.Or(cmp.Compare(r.skips.since, since), cmp.Compare(r.written, written)) < 0 {
			at, since, written = i, r.skips.since, r.written
		}
	}
	return at
}

// noteTry notes what became of the row of an attempt, and returns how often in a row it was refused.
func (s *roster) noteTry(a AttemptID, t try) (refusals int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.attempt(a)
	if r == nil {
		return 0
	}
	if r.skips = r.skips.after(t, s.now(), r.threshold, s.cfg.Pace); r.skips != (skips{}) {
		s.rouse(r)
	}
	return r.skips.refusals
}

type outcome int

const (
	written  outcome = iota
	wentAway         // it is not this attempt's any more
	stayed           // it is locked or refused, and can be written later
)

type outcomes map[string]outcome

func (s Skipped) outcomes() outcomes {
	all := outcomes{}
	for _, runID := range s.Gone {
		all[runID] = wentAway
	}
	for _, runID := range s.Locked {
		all[runID] = stayed
	}
	for runID := range s.Failed {
		all[runID] = stayed
	}
	return all
}

// skips is what a keeper remembers of a row that it could not write.
type skips struct {
	locked   bool
	since    time.Duration // when it was locked first, or waited for in vain
	refusals int
	again    time.Duration // it is left alone until then
}

func (s *skips) paused(now time.Duration) bool { return now < s.again }

// A try is what became of a row when it was written, alone or with others.
type try struct {
	became  outcome
	alone   bool
	refused error
}

// after returns what to remember after a try. A row that was waited for in vain has to wait for its turn again: else
// one that stays locked would be the only one that is waited for.
func (s *skips) after(t try, now, threshold, pace time.Duration) skips {
	switch {
	case t.refused != nil:
		refusals := s.refusals + 1
		return skips{refusals: refusals, again: now + verdict.RetryRefused(threshold, pace, refusals)}
	case t.became == stayed && (t.alone || !s.locked):
		return skips{locked: true, since: now}
	case t.became != stayed:
		return skips{}
	}
	return *s
}
