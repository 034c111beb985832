package watchdog

import (
	"reflect"
	"sync"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/clocks"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/unwrap"
)

const (
	// batchSize is how many runs share one exchange, and one goroutine that tells their logs.
	batchSize = 512
	// batchWorkers is how many goroutines record the batches of one store. More would wait for each other: most stores
	// write one after the other.
	batchWorkers = 2
	// stepWorkers is how many record runs of a store that takes one run at a time.
	stepWorkers = 32
)

// A ring is what the timer found at one moment, by the stores of the runs. The runs of one store share exchanges, a few
// goroutines, and one timeout from the ring on. A store that hangs holds up only its own runs.
//
// Rejected: an exchange and a goroutine for each run. Of fifty thousand at one instant half were not recorded in time.
type ring struct {
	began  time.Time
	groups []*group
	index  map[groupKey]*group
}

// A groupKey is what the runs of a group have in common.
type groupKey struct {
	store   EventStore
	timeout time.Duration
}

func newRing(began time.Time) *ring { return &ring{began: began, index: map[groupKey]*group{}} }

// add has what was found of the run carried out, at the latest after the flush.
func (r *ring) add(w *Watchdog, found *findings) {
	one := &ringing{w: w, trip: found.trip}
	if len(found.entries) > 0 && !one.takeEntries(found) {
		w.deliver(found) // a task is under way, and this one is to come after it
	}
	if one.trip != nil || one.hasEntries() {
		r.groupOf(w).add(one)
	}
}

// groupOf is the group of the run. Where the store cannot be compared, that is a new one.
func (r *ring) groupOf(w *Watchdog) *group {
	key := groupKey{w.recorder.store, w.recorder.timeout}
	canCompare := reflect.ValueOf(key.store).Comparable()
	if canCompare && r.index[key] != nil {
		return r.index[key]
	}
	g := newGroup(key, nil, r.began)
	r.groups = append(r.groups, g)
	if canCompare {
		r.index[key] = g
	}
	return g
}

// flush has the rest carried out.
func (r *ring) flush() {
	for _, g := range r.groups {
		g.flush()
	}
}

// A group is what one ring found of the runs of one store. Its workers take batches of it as long as there are any.
type group struct {
	groupKey
	clock   clock.Clock // the host's; nil is the machine's
	began   time.Time
	able    TransactionalStore // nil if the store takes one run at a time
	instant bool
	size    int // of a batch
	workers int // at most

	mu      sync.Mutex
	trips   []*ringing // not taken yet; a trip is more urgent than a warning
	others  []*ringing
	working int
}

func newGroup(key groupKey, c clock.Clock, began time.Time) *group {
	g := &group{groupKey: key, clock: c, began: began, size: 1, workers: stepWorkers, instant: isInstant(key.store)}
	if able, ok := unwrap.To[TransactionalStore, EventStore](key.store); ok {
		g.able, g.size, g.workers = able, batchSize, batchWorkers
	}
	return g
}

// left is what is left of the record timeout.
func (g *group) left() time.Duration { return g.timeout - max(clocks.Since(g.clock, g.began), 0) }

// add puts the run in line, and has a worker take a batch that is full.
func (g *group) add(one *ringing) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if one.trip != nil {
		g.trips = append(g.trips, one)
	} else {
		g.others = append(g.others, one)
	}
	if g.waiting()%g.size == 0 {
		g.startWorker()
	}
}

// flush has workers take what is left.
func (g *group) flush() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for left := g.waiting(); left > 0; left -= g.size {
		g.startWorker()
	}
}

// startWorker starts one, unless there are enough. The caller holds mu.
func (g *group) startWorker() {
	if g.working < g.workers {
		g.working++
		go g.work()
	}
}

// waiting is how many runs wait for a worker. The caller holds mu.
func (g *group) waiting() int { return len(g.trips) + len(g.others) }

// work records batches until none waits. The host is told of as many runs at a time as one exchange may have, so that
// a log that hangs keeps one goroutine and not one for each run.
func (g *group) work() {
	var done batch
	for runs := g.take(); len(runs) > 0; runs = g.take() {
		g.carryOut(runs)
		if done = append(done, runs...); len(done) >= batchSize {
			go done.tellHosts()
			done = nil
		}
	}
	done.tellHosts()
}

// take returns the runs of the next exchange. If there are none, the worker ends.
func (g *group) take() batch {
	g.mu.Lock()
	defer g.mu.Unlock()
	from := &g.trips
	if len(*from) == 0 {
		from = &g.others
	}
	n := min(len(*from), g.size)
	if n == 0 {
		g.working--
	}
	taken := (*from)[:n:n]
	*from = (*from)[n:]
	return taken
}
