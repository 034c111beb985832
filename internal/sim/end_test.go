package sim_test

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// endsOf returns the events of a run that end its windows.
func (w *world) endsOf(r *run) []watchdog.Event {
	events, _ := w.db.Read(context.Background(), watchdog.AggregateType, r.id)
	return slices.DeleteFunc(events, func(e watchdog.Event) bool {
		return e.Type != watchdog.EventCancel && e.Type != watchdog.EventComplete
	})
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
	case (row.Reason == watchdog.SessionIdleTimeout || row.Reason == watchdog.SessionHostLost) && len(ends) == 0 && w.restoredAt.IsZero():
		w.failf("the row of run %s says %s, and there is no event", row.RunID, row.Reason)
	}
}

// checkEnd checks that a row says what the end of its window says. It is known that Close does not look up what a process
// before it recorded late, and that the event of a process which has lost the row can come after the end of the row.
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
