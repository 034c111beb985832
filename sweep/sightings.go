package sweep

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
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
	s.deaths = slices.DeleteFunc(s.deaths, func(at time.Duration) bool { return now-at > deathsKept })
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

// An observed is a lease as the sweeper sees it. Instants are by the sweeper's clock.
type observed struct {
	session.Lease               // as it was seen last
	known         bool          // a new beat was seen, at livedAt
	livedAt       time.Duration //
	suspect       bool          // it is looked at until it turns out to live, or is dead and its sessions are taken
	due           time.Duration // when to read it, to look at it if it is a suspect, to expire it if it was judged
	looks         verdict.Looks
	died          bool // its death was counted
	judged        bool // this sweeper has found it dead
	count         int  // by as many looks
	lost          bool // and its sessions are lost, too
	left          int  // sessions that named it when it was last expired
}

// endlessPromise is so long that nobody sees the end of it, and short enough to be added up.
const endlessPromise = watchdog.NoLimit / 16

// promise returns the lease's promise, at least the shortest that there is.
func (o *observed) promise() time.Duration {
	return min(max(o.Promise, session.ShortestPromise), endlessPromise)
}

// sees notes how the lease was found. One whose beat has not changed for long enough becomes a suspect. One that had
// expired and has not any more is of a database that was replaced by an older copy: nothing is known of it.
func (o *observed) sees(l session.Lease, now time.Duration) {
	lives, again := l.Beat != o.Beat && !l.Expired, o.Expired && !l.Expired
	o.Lease = l
	if again {
		o.died = false
		o.startAgain()
	}
	switch {
	case lives:
		o.startAgain()
		o.known, o.livedAt = true, now
		o.restAt(now)
	case !o.suspect && !o.finished() && (l.Expired || !o.known || now-o.livedAt >= verdict.SuspectAfter(o.promise())):
		o.suspectAt(now)
	}
}

// suspectAt has the lease looked at, from now on.
func (o *observed) suspectAt(now time.Duration) { o.suspect, o.due = true, now }

func (o *observed) restAt(now time.Duration) {
	o.suspect, o.due = false, now+verdict.SuspectAfter(o.promise())
}

// startAgain has the lease observed from the beginning, unless it has expired.
func (o *observed) startAgain() {
	o.looks = verdict.Looks{}
	o.judged = o.judged && o.Expired
	o.left = math.MaxInt
}

// finished reports whether there is nothing to learn of the lease: it has expired, and its sessions were taken out of
// it but for those that were locked.
func (o *observed) finished() bool { return o.Expired && o.judged && !o.suspect }

// looked notes a look at the lease, and reports whether it is dead.
func (o *observed) looked(look verdict.Look) (dead bool) {
	promise := o.promise()
	if o.due = look.Ended + promise; !look.Counts(promise) {
		o.due = max(look.Ended, look.Began+promise)
	}
	return o.looks.Add(promise, look)
}

// seemsDead reports whether looks at the lease found it not renewed for a promise. It may live all the same.
func (o *observed) seemsDead() bool { return o.suspect && o.looks.Lasted() >= o.promise() }

func (o *observed) attrs() []any {
	return []any{"lease", o.ID, "host", cmp.Or(o.Host, "unknown"), "promise", o.Promise, "beat", o.Beat}
}

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

func (s *sightings) died(o *observed, now time.Duration) {
	if !o.died {
		o.died = true
		s.deaths = append(s.deaths, now)
	}
}
