package sweep

import (
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/session"
)

// deathsKept is how long a sweeper remembers that a lease was found dead: as long as it observes any other.
var deathsKept = verdict.ObserveFor(session.LongestPromise)

// others are the other leases beside one that was found dead: those that died while it was observed or seem to be
// dying, all, and whether one was renewed meanwhile.
type others struct {
	dead, all int
	renewed   bool
}

// judge decides whether the sessions of a lease that was found dead are lost. They are not if a whole fleet seems
// to have died: then nothing lifts the cap of a pass, because more than a process may have failed. The decision is kept
// in the rows, for the passes and the sweepers to come.
func (s *sightings) judge(o *observed, now time.Duration) others {
	beside := s.besides(o)
	o.judged, o.due, o.count = true, now, o.looks.Count()
	o.lost = !verdict.FleetDied(beside.dead+1, beside.all+1, beside.renewed)
	return beside
}

// besides counts the leases beside one that was found dead.
func (s *sightings) besides(o *observed) (beside others) {
	since := o.looks.Began()
	for _, other := range s.leases {
		switch {
		case other == o || other.Expired:
			continue
		case other.known && other.livedAt > since:
			beside.renewed = true
		case other.seemsDead():
			beside.dead++
		}
		beside.all++
	}
	for _, at := range s.deaths {
		if at >= since {
			beside.dead++
			beside.all++
		}
	}
	return beside
}

// died counts the death of a lease, once.
func (s *sightings) died(o *observed, now time.Duration) {
	if !o.died {
		o.died = true
		s.deaths = append(s.deaths, now)
	}
}

// forgetDeaths drops those that are older than any observation.
func (s *sightings) forgetDeaths(now time.Duration) {
	s.deaths = slices.DeleteFunc(s.deaths, func(at time.Duration) bool { return now-at > deathsKept })
}
