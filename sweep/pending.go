package sweep

import (
	"time"

	"github.com/seed62658d38/watchdog/session"
)

// forgetAfter is how long after its time came something is remembered of a session that no pass sees.
const forgetAfter = 24 * time.Hour

// gather is within what time graces end that are looked at together.
const gather = time.Second

// A pending is what a sweeper remembers, between passes, of a session that it could not cancel or has warned.
type pending struct {
	lastEventAt time.Time
	attempt     int
	warnedAt    time.Time // zero where it was not warned
	failures    int       // in a row
	next        time.Time // it is left alone until then
	pass        int       // the last that saw it
}

// pendings are what is remembered, by the run's ID.
type pendings map[string]*pending

// of is what is remembered of a session. One that has had an event since, or another attempt, is a new matter.
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
		m.pass = pass
	}
}

// forget drops what a pass that saw every stalled session did not see, and what nobody saw for long.
func (all pendings) forget(pass int, complete bool, now time.Time) {
	for runID, m := range all {
		if complete && m.pass != pass || now.Sub(m.next) > forgetAfter {
			delete(all, runID)
		}
	}
}

// due is when the next grace is over, and zero where there is none. What could have come in the pass before waits for the interval, and what is due a moment
// later is waited for.
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

// failed is what is remembered after one more failure: the next try comes with the next pass, then with the one after, and later and later.
func (m pending) failed(interval time.Duration, now time.Time) pending {
	m.next = now.Add(doubled(interval/2, max(interval, forgetAfter/4), m.failures))
	m.failures++
	return m
}
