package sim_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// A truth is what the world knows besides. The world's mutex guards it, but for the log's.
type truth struct {
	logMu sync.Mutex

	acknowledged map[string]bool // IDs of events
	leaseOrder   map[string]int
	renewed      map[string]time.Time // when leases were renewed last, in the database
	beats        map[string]int64
	expired      map[string]bool
	restoredAt   time.Time // when the database came back older
	leaseLostAt  time.Time // when a lease was deleted
	calmSince    time.Time // since when nothing is wrong anywhere; zero while something is
	setBack      time.Duration
	swept        int
	longest      map[string]time.Duration // of the calls of a kind
	endSeen      map[string]time.Time     // when the events of ends were first seen
}

func newTruth() truth {
	return truth{
		acknowledged: map[string]bool{}, leaseOrder: map[string]int{}, longest: map[string]time.Duration{},
		endSeen: map[string]time.Time{}, renewed: map[string]time.Time{}, beats: map[string]int64{}, expired: map[string]bool{},
	}
}

// A rowTruth is what happened to the row of a run.
type rowTruth struct {
	stuckUntil time.Time // when it could be written again, after it was locked or refused
	stuckSince time.Time
	deletedAt  time.Time
	attachedAt time.Time // when an attempt was begun last, in the database
	deadSince  time.Time // since when nobody runs it, and it is active
	activeAt   time.Time // when it was last seen to be active
	splitSince time.Time // since when several processes run it
}

// acknowledge notes that a client was told that its events are stored.
func (w *world) acknowledge(err error, events []watchdog.Event) error {
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range events {
		w.acknowledged[e.ID] = true
	}
	return nil
}

func (w *world) noteAttach(s session.Session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.runs {
		if r.id == s.RunID {
			r.row.attachedAt, r.row.deadSince = time.Now(), time.Time{}
		}
	}
}

// noteRenewal notes that a lease was begun or renewed in the database.
func (w *world) noteRenewal(l *link, id string, beat int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if beat <= w.beats[id] {
		return // it came late
	}
	w.beats[id] = beat
	if _, there := w.leaseOrder[id]; !there {
		w.leaseOrder[id] = len(w.leaseOrder)
	}
	h, now := l.host, time.Now()
	w.renewed[id] = now
	if now.Sub(h.renewedAt) >= 3*promise {
		h.gapUntil = now
	}
	h.renewedAt = now
}

// checkExpired checks that a lease which a sweeper has expired was not renewed for three promises.
func (w *world) checkExpired(l *link, id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	was := w.expired[id]
	w.expired[id] = true
	if was || l.host != nil || w.renewed[id].IsZero() { // it was expired already, or its process ended it
		return
	}
	if since := now.Sub(w.renewed[id]); since < 3*promise && now.Sub(latest(w.restoredAt, w.leaseLostAt)) > horizon {
		w.failf("sweeper %s expired a lease that was renewed %v ago", l.name, since)
	}
}

// uses notes the lease that a process uses now.
func (l *link) uses(lease string) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.host.lease != lease {
		l.host.lease, l.host.leaseSince = lease, time.Now()
	}
}

// lockLeases marks the suspects that are locked, and orders the leases as they began: their IDs are random.
func (w *world) lockLeases(all []session.Lease, suspects []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortFunc(all, func(a, b session.Lease) int { return w.leaseOrder[a.ID] - w.leaseOrder[b.ID] })
	for i := range all {
		all[i].Locked = slices.Contains(suspects, all[i].ID) && w.leases.locked(all[i].ID)
	}
}

// noteHealth notes who can write now. The caller holds the mutex.
func (w *world) noteHealth() {
	now, calm := time.Now(), w.mode == works
	for _, h := range w.hosts {
		h.link.note(h.link.able(), now)
		h.link.own.note(h.link.reaches(), now)
		calm = calm && (h.gone || h.link.able())
	}
	sweeping := false
	for _, s := range w.sweepers {
		s.link.note(s.link.able(), now)
		calm = calm && (s.gone || s.link.able())
		sweeping = sweeping || !s.gone
	}
	for _, r := range w.runs {
		calm = calm && !w.rows.stuck(r.id)
	}
	calm = calm && w.leases.none()
	w.calmIf(calm && sweeping, now)
}

func (w *world) calmIf(calm bool, now time.Time) {
	switch {
	case !calm:
		w.calmSince = time.Time{}
	case w.calmSince.IsZero():
		w.calmSince = now
	}
}

// disturb notes that something happened at this moment.
func (w *world) disturb() {
	if !w.calmSince.IsZero() {
		w.calmSince = time.Now()
	}
}

func (w *world) notePass(s *sweeper, p sweep.Pass) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.longest["pass"] = max(w.longest["pass"], p.Duration)
	s.counted += p.Cancelled
}

// live reports whether the process of a run could write within every stretch of three promises.
func (a *attachment) live(now time.Time) bool {
	h := a.host
	if a.closed || h.gone || a.wd.Context().Err() != nil {
		return false
	}
	renews := now.Sub(h.renewedAt) < 3*promise && (h.gapUntil.Before(a.at) || now.Sub(h.gapUntil) > recovery)
	return renews || h.link.own.wellSince(a.at, now)
}

// checkSwept checks that a session which a sweeper has just cancelled was stalled.
func (w *world) checkSwept(l *link, s session.Session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.swept++
	for _, s := range w.sweepers {
		if s.link == l {
			s.committed++
		}
	}
	now := time.Now()
	for _, a := range w.attached {
		if a.run.id == s.RunID && a.attempt == s.Attempt && a.live(now) && !w.maySweep(a, now) {
			w.failf("sweeper %s ended run %s of the live host %s: silent for %v of %v, signalled %v, holds %d, lease %v",
				l.name, s.RunID, a.host.name, now.Sub(a.lastSignal), a.shortestThreshold(), a.signalled, len(a.holds), s.Lease != "")
		}
	}
}

// maySweep reports whether a live run was silent for too long, or whether its row could not say that it lives.
func (w *world) maySweep(a *attachment, now time.Time) bool {
	if now.Sub(latest(w.restoredAt, w.leaseLostAt, a.run.row.deletedAt)) < horizon {
		return true
	}
	if a.signalled && len(a.holds) == 0 && now.Sub(a.lastSignal) > a.shortestThreshold() {
		return true
	}
	if !a.wokeAt.IsZero() && (w.justWoke(a, now) || a.run.row.unwritten(a.wokeAt, now)) {
		return true
	}
	if w.leases.locked(a.host.lease) && !a.host.link.own.longBad.Before(a.at) {
		return true // it was dead, and cannot read that its lease has expired
	}
	return a.host.gapUntil.After(a.at) && a.run.row.unwritten(a.host.gapUntil, now)
}

// justWoke reports whether a run that was silent for too long woke up a moment ago, as far as its process could say so.
func (w *world) justWoke(a *attachment, now time.Time) bool {
	able := a.host.link.okSince
	return able.IsZero() || now.Sub(latest(a.wokeAt, able)) < 5*promise
}

// unwritten reports whether the row could not be written since then, all the time or nearly.
func (r *rowTruth) unwritten(since, now time.Time) bool {
	return r.stuckSince.After(r.stuckUntil) || r.stuckUntil.After(since) && now.Sub(r.stuckUntil) < threshold
}

// check checks all invariants.
func (w *world) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteHealth()
	now := time.Now()
	for _, o := range w.ops {
		w.checkOp(o)
	}
	for _, r := range w.runs {
		row, err := w.db.Session(context.Background(), r.id)
		if err != nil {
			row = session.Session{}
		}
		w.checkRun(r, row, now)
		for _, e := range w.endsOf(r) {
			if w.endSeen[e.ID].IsZero() {
				w.endSeen[e.ID] = now
			}
		}
	}
}

// endsOf returns the events of a run that end its windows.
func (w *world) endsOf(r *run) []watchdog.Event {
	events, _ := w.db.Read(context.Background(), watchdog.AggregateType, r.id)
	return slices.DeleteFunc(events, func(e watchdog.Event) bool {
		return e.Type != watchdog.EventCancel && e.Type != watchdog.EventComplete
	})
}

// checkOp checks that a call has returned in time. That of a process that is stopped cannot.
func (w *world) checkOp(o *op) {
	l := o.host.link
	if o.host.link.stopped != nil || l.okSince.After(o.began) || o.spoke {
		o.began = time.Now() // it may need that long again
		return
	}
	took := time.Since(latest(o.began, l.wentOnAt))
	w.longest[o.name[:3]] = max(w.longest[o.name[:3]], took)
	if took > o.most {
		o.spoke = true
		w.failf("%s on %s takes %v, more than %v", o.name, o.host.name, took, o.most)
	}
}

// checkRun checks that those who run a run, and its row, agree soon.
func (w *world) checkRun(r *run, row session.Session, now time.Time) {
	if row.Status == session.Active {
		r.row.activeAt = now
	}
	running, runners := w.checkAttached(r, row, now)
	w.checkSplit(r, runners, now)
	switch {
	case row.Status != session.Active || running:
		r.row.deadSince = time.Time{}
	case r.row.deadSince.IsZero():
		r.row.deadSince = now
	default:
		w.checkDead(r, row, now)
	}
}

// checkAttached checks the attempts at a run. It reports whether the row's attempt runs, and how many processes that can
// write run the run.
func (w *world) checkAttached(r *run, row session.Session, now time.Time) (running bool, runners int) {
	for _, a := range w.attached {
		switch {
		case a.run != r || a.host.gone:
		case a.closed || a.wd.Context().Err() != nil:
			w.checkEnded(a, row, now)
		default:
			if _, ok := w.ableSince(a); ok {
				runners++
			}
			running = running || a.has(row)
			w.checkRunning(a, row, now)
		}
	}
	return running, runners
}

// has reports whether the row is that of the attempt.
func (a *attachment) has(row session.Session) bool {
	return row.Status == session.Active && row.Attempt == a.attempt
}

// checkSplit checks that no two processes run a run for long.
func (w *world) checkSplit(r *run, runners int, now time.Time) {
	switch {
	case runners < 2:
		r.row.splitSince = time.Time{}
	case r.row.splitSince.IsZero():
		r.row.splitSince = now
	case now.Sub(r.row.splitSince) > mostHealing+2*promise:
		w.failf("%d processes run run %s", runners, r.id)
	}
}

// ableSince returns since when a process could write a row, or false if it cannot.
func (w *world) ableSince(a *attachment) (time.Time, bool) {
	if a.host.link.okSince.IsZero() || w.rows.stuck(a.run.id) || w.leases.locked(a.host.lease) {
		return time.Time{}, false
	}
	return latest(a.host.link.okSince, a.run.row.stuckUntil, w.restoredAt, w.leaseLostAt, a.at), true
}

func latest(all ...time.Time) time.Time { return slices.MaxFunc(all, time.Time.Compare) }

// checkRunning checks that a run which runs has its row, or ends soon.
func (w *world) checkRunning(a *attachment, row session.Session, now time.Time) {
	able, ok := w.ableSince(a)
	switch {
	case !a.has(row):
		if a.lostSince.IsZero() {
			a.lostSince = now
		}
		if ok && !a.sameNumber(row) {
			w.checkLost(a, row, able, now)
		}
	case row.Lease == a.host.lease:
		a.lostSince, a.awaySince, a.ownAt = time.Time{}, time.Time{}, now
	default:
		a.lostSince, a.ownAt = time.Time{}, now
		if a.awaySince.IsZero() {
			a.awaySince = now
		}
		if ok && !w.shared(a) && now.Sub(latest(able, a.awaySince, a.host.leaseSince)) > w.mostAway(a, now) {
			w.failf("the row of run %s is not in the lease of host %s, which runs it", a.run.id, a.host.name)
		}
	}
}

// mostAway is how long the row of a run can be in no lease of its process. One that nobody has locked, refused or taken
// back is claimed at once by a process whose lease has expired.
func (w *world) mostAway(a *attachment, now time.Time) time.Duration {
	if now.Sub(latest(w.restoredAt, w.leaseLostAt, a.run.row.deletedAt, a.run.row.stuckUntil)) < 2*horizon {
		return mostHealing
	}
	return mostTold
}

// shared reports whether another process runs the run, too: checkSplit says for how long.
func (w *world) shared(a *attachment) bool {
	return slices.ContainsFunc(w.attached, func(b *attachment) bool {
		return b != a && b.run == a.run && !b.closed && !b.host.gone && b.wd.Context().Err() == nil
	})
}

// sameNumber reports whether another process had an attempt with the same number, after a row was lost, and has ended it.
// It is known that a run whose row says that is not told.
func (a *attachment) sameNumber(row session.Session) bool {
	return row.Attempt == a.attempt && (row.Status != session.Cancelled && row.Reason == "" ||
		!row.StartedAt.Equal(a.wd.StartedAt()))
}

// checkLost checks that a run whose row is not its own ends soon, or has its row again.
func (w *world) checkLost(a *attachment, row session.Session, able, now time.Time) {
	told := w.restoredAt.IsZero() && row.RunID != "" && row.Attempt >= a.attempt
	most := mostHealing
	switch h := a.host; {
	case told && h.link.okSince.Before(a.ownAt): // it was notified
		most = mostTold
	case told && h.leaseSince.After(a.lostSince): // it was dead, and goes on
		most, able = mostTold, latest(able, h.leaseSince)
	}
	if now.Sub(latest(able, a.lostSince)) > most {
		w.failf("run %s runs on, on host %s as attempt %d, %v after its row says %s of attempt %d on host %q",
			a.run.id, a.host.name, a.attempt, now.Sub(a.lostSince), row.Status, row.Attempt, row.Host)
	}
}

// checkEnded checks that the row of a run that has ended says so soon.
func (w *world) checkEnded(a *attachment, row session.Session, now time.Time) {
	if a.endedAt.IsZero() {
		a.endedAt = now
	}
	able, ok := w.ableSince(a)
	if row.Status != session.Active || row.Attempt != a.attempt || !ok || row.Lease != a.host.lease ||
		!a.endedAt.After(latest(w.restoredAt, a.run.row.attachedAt)) { // it was written; this is another attempt, or lost

		return
	}
	if now.Sub(latest(able, a.endedAt)) > mostEnding {
		w.failf("run %s ended on host %s, %v later its row is active: %v", a.run.id, a.host.name,
			now.Sub(a.endedAt), context.Cause(a.wd.Context()))
	}
}

// checkDead checks that a session which nobody runs is ended in time.
func (w *world) checkDead(r *run, row session.Session, now time.Time) {
	if r.threshold == watchdog.NoLimit || w.calmSince.IsZero() {
		return
	}
	if !w.leaseLostAt.IsZero() && row.Lease != "" && !w.hasLease(row.Lease) {
		return // known: nobody observes a lease that was deleted, and its process is dead
	}
	since := latest(r.row.deadSince, w.calmSince)
	if most := w.mostDead(r); now.Sub(since) > most {
		w.failf("nobody runs run %s, and its row is active for %v, more than %v: attempt %d on host %s, lease %q",
			r.id, now.Sub(since), most, row.Attempt, row.Host, row.Lease)
	}
}

func (w *world) hasLease(id string) bool {
	all, _ := w.db.ObserveLeases(context.Background(), nil)
	return slices.ContainsFunc(all, func(l session.Lease) bool { return l.ID == id })
}

// mostDead is how long a session may stay active that nobody runs: until its process is taken for dead and its threshold
// is over, or until the process that does not run it finds out.
func (w *world) mostDead(r *run) time.Duration {
	most := max(sweeperThreshold, min(r.threshold, time.Hour))
	if r.threshold > 0 {
		most = r.threshold
	}
	var interval, grace time.Duration
	for _, s := range w.sweepers {
		if !s.gone {
			interval, grace = max(interval, s.interval), max(grace, s.grace)
		}
	}
	return most + 13*promise + observing + 3*interval + grace + stopTimeout + 2*recordTimeout + w.setBack + maxFault
}

// checkEnds checks the ends of all runs, once everything is quiet.
func (w *world) checkEnds() {
	w.mu.Lock()
	defer w.mu.Unlock()
	stored := map[string]bool{}
	for _, r := range w.runs {
		events, _ := w.db.Read(context.Background(), watchdog.AggregateType, r.id)
		for _, e := range events {
			stored[e.ID] = true
		}
		ends := map[string]watchdog.Event{}
		for _, e := range w.endsOf(r) {
			window := windowOf(e)
			if _, twice := ends[window]; twice {
				w.failf("the window %s of run %s has two ends", window, r.id)
			}
			ends[window] = e
		}
		if row, err := w.db.Session(context.Background(), r.id); err == nil {
			w.checkAgreement(r, row, ends)
		}
	}
	for _, s := range w.sweepers {
		if !s.gone && s.committed != s.counted && w.restoredAt.IsZero() {
			w.failf("sweeper %s has cancelled %d sessions, and knows of %d", s.name, s.committed, s.counted)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.acknowledged)) {
		if !stored[id] {
			w.failf("event %s was acknowledged and is lost", id)
		}
	}
}

// checkAgreement checks that a row says what the end of its window says.
func (w *world) checkAgreement(r *run, row session.Session, ends map[string]watchdog.Event) {
	end, there := ends[stamp(row.StartedAt)]
	switch {
	case row.Status == session.Active:
	case there:
		w.checkEnd(r, row, end)
	case row.Reason == watchdog.SessionIdleTimeout && len(ends) == 0 && w.restoredAt.IsZero():
		w.failf("the row of run %s says %s, and there is no event", row.RunID, row.Reason)
	}
}

// checkEnd checks that a row says what the end of its window says. It is known that the event of a process which has
// lost the row can come after the end of the row.
func (w *world) checkEnd(r *run, row session.Session, end watchdog.Event) {
	seen := w.endSeen[end.ID]
	switch status, reason := session.StoredEnd(end); {
	case row.Status != session.Cancelled && row.Reason == "" && (seen.IsZero() || !seen.Before(r.row.activeAt)):
	case status != row.Status || reason != row.Reason:
		w.failf("the row of run %s says %s %q, and the event %s %q", row.RunID, row.Status, row.Reason, status, reason)
	}
}

// noteLooks notes which leases a sweeper found as it did before.
func (l *link) noteLooks(all []session.Lease, suspects []string, err error) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	for _, id := range suspects {
		i := slices.IndexFunc(all, func(lease session.Lease) bool { return lease.ID == id && !lease.Locked })
		switch before := l.looks[id]; {
		case err != nil || i < 0:
			delete(l.looks, id)
		case before == nil || before.beat != all[i].Beat:
			l.looks[id] = &looks{all[i].Beat, time.Now(), 1}
		default:
			before.count++
		}
	}
}

// looks are looks at a lease in a row that succeeded and found the same beat.
type looks struct {
	beat  int64
	since time.Time
	count int
}

// checkLooks checks that a sweeper which expires a lease has looked at it for three promises.
func (l *link) checkLooks(lease session.Lease) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.host != nil || lease.Expired || l.w.expired[lease.ID] {
		return
	}
	if seen := l.looks[lease.ID]; seen == nil || seen.count < 3 || time.Since(seen.since) < 3*promise {
		l.w.failf("sweeper %s expires a lease without three promises of looks: %+v", l.name, seen)
	}
}
