package sim_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/session"
)

// A weather is how a database behaves, and how often that was changed.
type weather struct {
	mode    mode
	changes int
}

// set changes how the database behaves, for one process or for all, for a while. If it fails, connections are cut.
func (w *world) set(now *weather, m mode, d time.Duration, cut func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now.changes++
	now.mode = m
	if m == fails {
		cut()
	}
	w.noteHealth()
	changes := now.changes
	w.heal(d, func() {
		if now.changes == changes {
			now.mode = works
		}
	})
}

// cut breaks the connections of a process. The caller holds the mutex.
func (l *link) cut() {
	close(l.gone)
	l.gone = make(chan struct{})
}

// cutAll breaks all connections. The caller holds the mutex.
func (w *world) cutAll() {
	for _, h := range w.hosts {
		h.link.cut()
	}
	for _, s := range w.sweepers {
		s.link.cut()
	}
}

// heal ends a fault after a while. The caller holds the mutex.
func (w *world) heal(d time.Duration, do func()) {
	w.pending = append(w.pending, time.AfterFunc(d, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		do()
		w.noteHealth()
	}))
}

// stopProcess stops a process as SIGSTOP does, for a while: it calls nobody and hears nothing.
func (w *world) stopProcess(l *link, d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l.stopped != nil {
		return
	}
	l.stopped = make(chan struct{})
	w.noteHealth()
	w.heal(d, l.goOn)
}

// goOn has a stopped process go on. The caller holds the mutex.
func (l *link) goOn() {
	if l.stopped != nil {
		close(l.stopped)
		l.stopped, l.wentOnAt = nil, time.Now()
	}
}

// setStuck has strangers lock the row of a run, or the database refuse it, for a while.
func (w *world) setStuck(r *run, refuse bool, d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rows.stuck(r.id) {
		return
	}
	if refuse {
		w.rows.refuse(r.id, true)
	} else {
		w.rows.lock(r.id, true)
	}
	r.row.stuckSince = time.Now()
	w.noteHealth()
	w.heal(d, func() { w.free(r) })
}

// free ends what setStuck did. The caller holds the mutex.
func (w *world) free(r *run) {
	if w.rows.stuck(r.id) {
		r.row.stuckUntil = time.Now()
	}
	w.rows.refuse(r.id, false)
	w.rows.lock(r.id, false)
}

// lockLease has a stranger lock a lease, for a while.
func (w *world) lockLease(id string, d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leases.lock(id, true)
	w.noteHealth()
	w.heal(d, func() { w.leases.lock(id, false) })
}

// deleteRow removes the row of a run.
func (w *world) deleteRow(r *run) {
	_ = w.database().Delete(context.Background(), r.id)
	w.mu.Lock()
	defer w.mu.Unlock()
	r.row.deletedAt = time.Now()
	w.disturb()
}

// expireLease has a stranger expire the lease of a host, whether it lives or not.
func (w *world) expireLease(h *host) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all, _ := w.db.ObserveLeases(context.Background(), nil)
	for _, l := range all {
		if l.ID == h.lease {
			_, _, _ = w.db.ExpireLease(context.Background(), l)
			w.expired[l.ID], h.leaseLostAt = true, time.Now()
		}
	}
	w.disturb()
}

// save keeps a copy of the database.
func (w *world) save() {
	db := w.database().Clone()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.snapshot = db
}

// restore has the database come back as it was saved. What was acknowledged since is lost.
func (w *world) restore() {
	db := w.snapshot.Clone()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.db, w.restoredAt = db, time.Now()
	kept := map[string]bool{}
	for _, r := range w.runs {
		events, _ := db.Read(context.Background(), event.AggregateType, r.id)
		for _, e := range events {
			kept[e.ID] = w.acknowledged[e.ID]
		}
	}
	w.acknowledged, w.endSeen = kept, map[string]time.Time{}
	w.beats, w.expired = map[string]int64{}, expiredIn(db)
	w.cutAll()
	w.disturb()
}

// stepClock steps the clock of the database.
func (w *world) stepClock(d time.Duration) {
	w.offset.Add(int64(d))
	w.mu.Lock()
	defer w.mu.Unlock()
	if d < 0 {
		w.setBack -= d
	}
	w.disturb()
}

// healAll ends all faults.
func (w *world) healAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mode = works
	for _, h := range w.hosts {
		h.link.mode, h.link.losing, h.link.lating = works, "", ""
		h.link.goOn()
	}
	for _, s := range w.sweepers {
		s.link.mode, s.link.losing, s.link.lating = works, "", ""
		s.link.goOn()
	}
	for _, r := range w.runs {
		w.free(r)
	}
	for id := range w.leaseOrder {
		w.leases.lock(id, false)
	}
	w.noteHealth()
}

// calm ends all faults, lets the fleet come to rest, and checks that all agree.
func (w *world) calm() {
	if w.failed() {
		return
	}
	w.healAll()
	w.stepf("all faults end")
	if !w.sweeping() {
		w.startSweeper(3*time.Second, 0, watchdog.None, false)
	}
	most := time.Duration(0)
	for _, r := range w.runs {
		if r.row.deadSince.IsZero() || r.threshold == watchdog.NoLimit {
			continue
		}
		most = max(most, w.mostDead(r))
	}
	for left := max(most, 15*promise) + promise; left > 0 && !w.failed(); left -= 5 * promise {
		w.settle(5 * promise)
	}
	w.checkEnds()
}

func (w *world) sweeping() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.sweepers {
		if !s.gone {
			return true
		}
	}
	return false
}

// end ends all processes in order, and checks that all agree once more.
func (w *world) end() {
	failed := w.failed()
	w.mu.Lock()
	w.over = true
	for _, t := range w.pending {
		t.Stop()
	}
	w.mu.Unlock()
	if failed {
		w.healAll()
	}
	for _, a := range w.attachments() {
		if !a.closed {
			w.close(a)
		}
	}
	time.Sleep(2 * promise)
	for _, h := range w.hosts {
		h.stop()
		<-h.done
	}
	if !failed {
		time.Sleep(promise)
		w.checkEnds()
	}
	for _, s := range w.sweepers {
		s.stop()
		<-s.done
	}
	time.Sleep(promise)
}

// state is how all runs are, for the trace.
func (w *world) state() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	for _, r := range w.runs {
		row, err := w.db.Session(context.Background(), r.id)
		if err != nil {
			fmt.Fprintf(&b, "%s: no row", r.id)
		} else {
			fmt.Fprintf(&b, "%s: %s %s of attempt %d", r.id, row.Status, row.Reason, row.Attempt)
		}
		for _, a := range w.attached {
			if a.run == r && !a.closed && !a.host.gone {
				how := "runs"
				if cause := context.Cause(a.wd.Context()); cause != nil {
					how = causeOf(cause)
				}
				fmt.Fprintf(&b, ", %s %s as %d", a.host.name, how, a.attempt)
			}
		}
		b.WriteString("; ")
	}
	return b.String()
}

// windowOf returns the start of the window that an end ends.
func windowOf(e watchdog.Event) string {
	var p struct {
		StartedAt event.Stamp `json:"session_started_at"`
	}
	_ = json.Unmarshal(e.Payload, &p)
	return p.StartedAt.String()
}

func stamp(t time.Time) string { return event.Stamp(t).String() }

// endsOf returns the events of a run that end its windows.
func (w *world) endsOf(r *run) []watchdog.Event {
	events, _ := w.db.Read(context.Background(), event.AggregateType, r.id)
	return slices.DeleteFunc(events, func(e watchdog.Event) bool {
		return e.Type != event.Cancel && e.Type != event.Complete
	})
}

// checkEnds checks the ends of all runs, once everything is quiet.
func (w *world) checkEnds() {
	w.mu.Lock()
	defer w.mu.Unlock()
	stored := map[string]bool{}
	for _, r := range w.runs {
		events, _ := w.db.Read(context.Background(), event.AggregateType, r.id)
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
	case (row.Reason == watchdog.SessionIdleTimeout || row.Reason == watchdog.SessionHostLost) && len(ends) == 0 && w.restoredAt.IsZero():
		w.failf("the row of run %s says %s, and there is no event", row.RunID, row.Reason)
	}
}

// checkEnd checks that a row says what the end of its window says. It is known that Close does not look up what a
// process before it recorded late, and that the event of a process which has lost the row can come after the end of the
// row.
func (w *world) checkEnd(r *run, row session.Session, end watchdog.Event) {
	seen := w.endSeen[end.ID]
	switch status, reason := session.StoredEnd(end); {
	case row.Status == session.Finished && row.Reason == "" && w.stoppedBefore(r, row):
	case row.Status != session.Cancelled && row.Reason == "" && (seen.IsZero() || !seen.Before(r.row.activeAt)):
	case status != row.Status || reason != row.Reason:
		w.failf("the row of run %s says %s %q, and the event %s %q", row.RunID, row.Status, row.Reason, status, reason)
	}
}

// stoppedBefore reports whether an attempt before that of the row ended with a stop, which its process may have
// recorded while the next one ran.
func (w *world) stoppedBefore(r *run, row session.Session) bool {
	return slices.ContainsFunc(w.attached, func(a *attachment) bool {
		var stop *watchdog.Stop
		return a.run == r && a.attempt < row.Attempt && errors.As(context.Cause(a.wd.Context()), &stop)
	})
}
