package sweep

import (
	"maps"
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/session"
)

// forgetAfter is how long an entry is kept past its next time if no pass sees the session.
const forgetAfter = 24 * time.Hour

// gather is the time within which graces end that one pass looks at together.
const gather = time.Second

// A pending is what a sweeper remembers, between passes, of a session that failed, or waits for the end of its grace.
type pending struct {
	// The session's signs of life, as it was judged.
	attempt     int
	lease       string
	activity    time.Duration
	lastEventAt time.Time

	by         string // who claims and cancels, the same at every try
	stopped    bool   // the stop hook was called, by whatever sweeper
	stopFailed bool
	unanswered *Case     // as it was judged at a cancel that was not answered; nil if there was none
	warnedAt   time.Time // by this host's clock; it counts only where the database does not know
	due        time.Time // when the grace ends; zero without
	failures   int       // in a row
	next       time.Time // the session is left alone until then
	keptAt     time.Time
	seenBy     int // number of the last pass that saw it
}

type pendings map[string]*pending

// of returns what is remembered of a session. A session that has given a sign of life since, or is in another attempt,
// starts from nothing.
func (all pendings) of(s session.Session) pending {
	m := all[s.RunID]
	if m != nil && m.attempt == s.Attempt && m.lease == s.Lease && m.activity == s.Activity &&
		m.lastEventAt.Equal(s.LastEventAt) {
		return *m
	}
	return pending{attempt: s.Attempt, lease: s.Lease, activity: s.Activity, lastEventAt: s.LastEventAt}
}

func (all pendings) keep(runID string, m pending) {
	m.keptAt = time.Now()
	all[runID] = &m
}

func (all pendings) drop(runID string) { delete(all, runID) }

func (all pendings) saw(runID string, pass int) {
	if m := all[runID]; m != nil {
		m.seenBy = pass
	}
}

// forget drops the sessions that a complete pass did not see, but for those that are to be looked up, and those that no
// pass saw for long.
func (all pendings) forget(pass int, complete bool, now time.Time) {
	maps.DeleteFunc(all, func(_ string, m *pending) bool {
		return complete && m.seenBy < pass && m.unanswered == nil ||
			now.Sub(m.keptAt) > forgetAfter && now.Sub(m.next) > forgetAfter
	})
}

// due returns when the next grace ends, or zero if none is running. Graces that end within [gather] of the first are
// waited for. A grace that is over already does not count: its session was due in the pass before, and waits for the
// interval.
func (all pendings) due(now time.Time) time.Time {
	var first, last time.Time
	for _, m := range all {
		if m.due.After(now) && (first.IsZero() || m.due.Before(first)) {
			first = m.due
		}
	}
	for _, m := range all {
		if m.due.After(last) && m.due.Sub(first) <= gather {
			last = m.due
		}
	}
	if first.IsZero() {
		return first
	}
	return last
}

// holdBack undoes the growth of a pause after a pass in which nothing worked: the database may be at fault.
func (all pendings) holdBack(runID string, interval time.Duration, now time.Time) {
	if m := all[runID]; m != nil {
		m.failures = min(m.failures, 1)
		if first := now.Add(pause(interval, 0)); m.next.After(first) {
			m.next = first
		}
	}
}

// failed returns what is remembered after one more failure.
func (m pending) failed(interval time.Duration, now time.Time) pending {
	m.next = now.Add(pause(interval, m.failures))
	m.failures++
	return m
}

// pause returns how long to wait after a failure. The first wait is half an interval, so that the next pass tries
// again. It doubles with each failure, up to six hours or the interval, whichever is longer.
func pause(interval time.Duration, failures int) time.Duration {
	return verdict.Doubled(interval/2, max(interval, forgetAfter/4), failures)
}
