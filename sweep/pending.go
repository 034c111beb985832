package sweep

import (
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/session"
)

// forgetAfter is how long an entry is kept past its next time if no pass sees the session.
const forgetAfter = 24 * time.Hour

// gather is the time within which graces end that one pass looks at together.
const gather = time.Second

// A pending is what a sweeper remembers, between passes, of a session that it warned or failed to cancel.
type pending struct {
	lastEventAt time.Time
	attempt     int
	warnedAt    time.Time // zero if it was not warned
	failures    int       // in a row
	next        time.Time // the session is left alone until then
	seenBy      int       // number of the last pass that saw it
}

// pendings are the remembered sessions by run ID.
type pendings map[string]*pending

// of returns what is remembered of a session. A session that has had an event since, or is in another attempt, starts
// from nothing.
func (all pendings) of(s session.Session) pending {
	if m := all[s.RunID]; m != nil && m.attempt == s.Attempt && m.lastEventAt.Equal(s.LastEventAt) {
		return *m
	}
	return pending{attempt: s.Attempt, lastEventAt: s.LastEventAt}
}

func (all pendings) keep(runID string, m pending) { all[runID] = &m }

func (all pendings) drop(runID string) { delete(all, runID) }

// saw notes that a pass has seen a session.
func (all pendings) saw(runID string, pass int) {
	if m := all[runID]; m != nil {
		m.seenBy = pass
	}
}

// forget drops the sessions that a complete pass did not see, and those that no pass saw for long.
func (all pendings) forget(pass int, complete bool, now time.Time) {
	for runID, m := range all {
		if complete && m.seenBy != pass || now.Sub(m.next) > forgetAfter {
			delete(all, runID)
		}
	}
}

// due returns when the next grace ends, or zero if none is running. Graces that end within [gather] of the first are
// waited for. A grace that is over already does not count: its session was due in the pass before, and waits for the
// interval.
func (all pendings) due(now time.Time) time.Time {
	var first, last time.Time
	for _, m := range all {
		if !m.warnedAt.IsZero() && m.next.After(now) && (first.IsZero() || m.next.Before(first)) {
			first = m.next
		}
	}
	for _, m := range all {
		if !m.warnedAt.IsZero() && m.next.After(last) && m.next.Sub(first) <= gather {
			last = m.next
		}
	}
	if first.IsZero() {
		return first
	}
	return last
}

// failed returns what is remembered after one more failure. The first wait is half an interval, so that the next pass
// tries again. It doubles with each failure, up to six hours or the interval, whichever is longer.
func (m pending) failed(interval time.Duration, now time.Time) pending {
	m.next = now.Add(verdict.Doubled(interval/2, max(interval, forgetAfter/4), m.failures))
	m.failures++
	return m
}
