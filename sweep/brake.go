package sweep

import (
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/session"
)

// deathsKept is how long a sweeper remembers that a lease was found dead: as long as it observes any other.
var deathsKept = verdict.ObserveFor(session.LongestPromise)

// seeLeases notes how all leases were found by a look, also those that were not looked at: which of them are renewed
// says whether the others are a whole fleet. A lease that was begun meanwhile was renewed.
func (w *walk) seeLeases(all []session.Lease, now time.Duration) {
	for _, l := range all {
		o := w.leases[l.ID]
		if o == nil {
			w.leases[l.ID] = &observed{Lease: l, known: true, livedAt: now}
			continue
		}
		if wasExpired := o.Expired; o.sees(l, now) {
			delete(w.suspects, l.ID)
		} else if l.Expired && !wasExpired {
			w.deaths = append(w.deaths, now)
		}
	}
}

// judgeLease decides whether the sessions of a lease that was found dead are lost. They are not if a whole fleet seems
// to have died: then nothing lifts the cap of a pass, because more than a process may have failed. The decision is kept
// in the rows, for the passes and the sweepers to come.
func (w *walk) judgeLease(o *observed) {
	if o.judged {
		return
	}
	dead, all, renewed := w.othersOf(o)
	o.judged, o.count, o.lost = true, o.looks.Count(), !verdict.FleetDied(dead+1, all+1, renewed)
	if o.lost {
		return
	}
	w.pass.FleetDied = true
	w.logger().Warn("a whole fleet seems to have died or to be cut off, and no cap is lifted for its sessions",
		append(o.attrs(), "dead", dead+1, "leases", all+1, "others_renewed", renewed)...)
}

// othersOf counts the other leases, those that died while a lease was observed or seem to be dying, and reports whether
// one was renewed meanwhile.
func (w *walk) othersOf(o *observed) (dead, all int, renewed bool) {
	since := o.looks.Began()
	for id, other := range w.leases {
		switch {
		case other == o || other.Expired:
			continue
		case other.known && other.livedAt > since:
			renewed = true
		case w.suspects[id] && other.looks.Lasted() >= other.promise():
			dead++
		}
		all++
	}
	for _, at := range w.deaths {
		if at >= since {
			dead++
			all++
		}
	}
	return dead, all, renewed
}

// forgetDeaths drops those that are older than any observation.
func (s *Sweeper) forgetDeaths(now time.Duration) {
	s.deaths = slices.DeleteFunc(s.deaths, func(at time.Duration) bool { return now-at > deathsKept })
}
