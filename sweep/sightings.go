package sweep

import (
	"maps"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/session"
)

// Sightings are what a sweeper has seen of all leases. They decide when to look at which, and which are dead: no lease
// waits for another. The zero value has seen none.
type sightings struct {
	leases  map[string]*observed // by ID
	deaths  []time.Duration      // when leases were found dead
	read    bool                 // the leases were read, last at readAt
	readAt  time.Duration
	readDue time.Duration // when to read them whatever their promises are
	dead    int           // how often sessions were taken out of a dead lease, by whatever sweeper
}

// note notes all leases as they were found. A suspect that is gone was found expired by another sweeper, or its process
// has ended it. It counts as dead if it seemed to be dying: one that is new is a suspect, too, and many processes end
// soon after they began.
func (s *sightings) note(all []session.Lease, now time.Duration) {
	there := make(map[string]*observed, len(all))
	for _, l := range all {
		o := s.leases[l.ID]
		if o == nil {
			there[l.ID] = s.first(l, now)
			continue
		}
		wasExpired := o.Expired
		if o.sees(l, now); o.Expired && !wasExpired {
			s.died(o, now)
		}
		there[l.ID] = o
	}
	for id, o := range s.leases {
		if there[id] == nil && o.suspect {
			s.dead++
			if o.seemsDead() {
				s.died(o, now)
			}
		}
	}
	s.leases, s.read, s.readAt, s.readDue = there, true, now, now+verdict.ReadLeasesAfter
	s.forgetDeaths(now)
}

// first returns a lease that was not seen before. If others were, it was begun since then, which renews it. It is a
// suspect unless it was begun just now.
func (s *sightings) first(l session.Lease, now time.Duration) *observed {
	o := &observed{Lease: l, known: s.read, livedAt: now}
	o.startAgain()
	if o.restAt(now); !o.known || now-s.readAt > verdict.SuspectAfter(o.promise()) {
		o.suspectAt(now)
	}
	return o
}

// failed notes that a read of the leases failed. Those that are not suspects are read again as if they had been seen.
func (s *sightings) failed(now time.Duration) {
	for _, o := range s.leases {
		if !o.suspect && o.due <= now {
			o.restAt(now)
		}
	}
	s.readDue = now + verdict.ReadLeasesAfter
}

// next returns when the next lease is due.
func (s *sightings) next() time.Duration {
	next := s.readDue
	for _, o := range s.leases {
		if !o.finished() {
			next = min(next, o.due)
		}
	}
	return next
}

// toLookAt returns the suspects that are to be looked at, and whether the leases are to be read.
func (s *sightings) toLookAt(now time.Duration) (suspects []string, read bool) {
	read = s.readDue <= now
	for id, o := range s.leases {
		switch {
		case o.due > now || o.judged:
		case o.suspect:
			suspects = append(suspects, id)
		default:
			read = true
		}
	}
	slices.Sort(suspects)
	return suspects, read || len(suspects) > 0
}

// toExpire returns a dead lease that is to be expired, nil if there is none.
func (s *sightings) toExpire(now time.Duration) *observed {
	for _, id := range slices.Sorted(maps.Keys(s.leases)) {
		if o := s.leases[id]; o.suspect && o.judged && o.due <= now {
			return o
		}
	}
	return nil
}

// takeUp has what was locked taken out of expired leases again.
func (s *sightings) takeUp(now time.Duration) {
	for _, o := range s.leases {
		if o.Expired && o.judged {
			o.suspectAt(now)
		}
	}
}

// looked notes a look at suspects that began at an instant, besides what note notes, and returns those that are dead.
func (s *sightings) looked(suspects []string, look verdict.Look, all []session.Lease) (dead []*observed) {
	found := make(map[string]session.Lease, len(all))
	for _, l := range all {
		found[l.ID] = l
	}
	for _, id := range suspects {
		o, one := s.leases[id], look
		if o == nil || !o.suspect { // it is gone, or has just been renewed
			continue
		}
		one.Sure, one.Beat = look.Sure && !found[id].Locked, found[id].Beat
		if o.looked(one) {
			dead = append(dead, o)
		}
	}
	return dead
}

// expired notes that a dead lease was expired and how many sessions still name it. What is locked is left until a pass
// takes it up.
func (s *sightings) expired(o *observed, left int, now time.Duration) {
	o.Expired = true
	s.died(o, now)
	if left < o.left {
		s.dead++
	}
	switch {
	case left == 0:
		delete(s.leases, o.ID)
	case left >= o.left:
		o.suspect = false
	}
	o.left = left
}

// suspected returns the suspects that somebody can wait for, and until when. For a lease whose promise is longer than a
// keeper may give nobody waits. Rejected: taking a shorter promise for it, because its process, which may live, renews
// it only so often.
func (s *sightings) suspected(now time.Duration) map[string]time.Duration {
	until := map[string]time.Duration{}
	for id, o := range s.leases {
		if o.suspect && o.Promise <= session.LongestPromise {
			until[id] = now + verdict.ObserveFor(o.promise())
		}
	}
	return until
}

// undecided reports whether one of the suspects that are waited for is to be looked at in time.
func (s *sightings) undecided(until map[string]time.Duration) bool {
	for id, last := range until {
		if o := s.leases[id]; o != nil && o.suspect && o.due <= last {
			return true
		}
	}
	return false
}
