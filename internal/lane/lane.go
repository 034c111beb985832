package lane

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/alarm"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/journal"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/uptime"
	"github.com/seed62658d38/watchdog/internal/verdict"
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

// A lane records what the runs of one store have decided. Its workers take runs as long as any wait, those that end
// first. The runs of a batch share exchanges and a time-out; a store that hangs holds up only its own runs, each of
// them no longer than its time-out since its end was decided. What the store did not take is tried again by a timer,
// see retry.go. A lane is there as long as a run waits in it. With Inline there is none: the caller carries.
//
// Rejected: an exchange and a goroutine for each run. Of fifty thousand at one instant half were not recorded in time.
type lane struct {
	key
	size, most int // of a batch; of the workers

	// The mutex of all lanes guards the rest.
	ends, others []*Recorder // not taken yet; an end is more urgent than a warning
	working      int
	retrying
}

// A key is what the runs of a lane have in common.
type key struct {
	store   any
	timeout time.Duration
	clock   clocks.Clock   // the host's; nil is the machine's
	alone   *journal.Place // that shares with no other; the rest is empty then
}

// lanes are all lanes.
var lanes = struct {
	mu  sync.Mutex
	all map[key]*lane
}{all: map[key]*lane{}}

// keyOf is the key of a place's lane. A session in a testing/synctest bubble shares with none: a timer of one bubble
// cannot be set in another. Nor does one whose store or clock cannot be compared.
func keyOf(p *journal.Place) key {
	store := p.Store.Store
	compares := reflect.ValueOf(store).Comparable() && (p.Clock == nil || reflect.ValueOf(p.Clock).Comparable())
	inBubble := uptime.Exact && p.Clock == nil && !p.Machine
	if inBubble || !compares {
		return key{alone: p}
	}
	return key{store: store, timeout: p.Timeout, clock: p.Clock}
}

// lane returns the run's, made if need be. The caller holds the mutex of all lanes.
func (r *Recorder) lane() *lane {
	k := keyOf(r.Place())
	l := lanes.all[k]
	if l == nil {
		l = newLane(k, r.Place())
		lanes.all[k] = l
	}
	return l
}

func newLane(k key, p *journal.Place) *lane {
	l := &lane{key: k, size: 1, most: stepWorkers}
	l.retrying = retrying{place: p, item: alarm.Item[lane]{Owner: l}}
	if p.Store.Transacts() {
		l.size, l.most = batchSize, batchWorkers
	}
	return l
}

// Enqueue has runs recorded by the workers of their lanes, together. Those of a bubble which are found together share a
// lane that none comes to later.
func Enqueue(all ...*Recorder) {
	for len(all) > batchSize {
		Enqueue(all[:batchSize]...)
		all = all[batchSize:]
	}
	ends := make([]bool, len(all))
	for i, r := range all {
		r.locked(func() { ends[i] = r.ending != nil })
	}
	shared := map[key]*lane{}
	lanes.mu.Lock()
	defer lanes.mu.Unlock()
	for i, r := range all {
		p := r.Place()
		if len(all) == 1 || keyOf(p).alone == nil || !reflect.ValueOf(p.Store.Store).Comparable() {
			r.lane().add(r, ends[i])
			continue
		}
		k := key{store: p.Store.Store, timeout: p.Timeout}
		if shared[k] == nil {
			shared[k] = newLane(k, p)
		}
		shared[k].add(r, ends[i])
	}
}

// add puts the run in line, and has a worker come for it. The caller holds the mutex.
func (l *lane) add(r *Recorder, ends bool) {
	if ends {
		l.ends = append(l.ends, r)
	} else {
		l.others = append(l.others, r)
	}
	if l.working < l.most && l.working*l.size < len(l.ends)+len(l.others) {
		l.working++
		go l.work()
	}
}

// work records batches until none waits. If the store or a log ends this goroutine, another goes on.
func (l *lane) work() {
	drained := false
	defer func() {
		if !drained {
			go l.work()
		}
	}()
	for b := l.take(nil); len(b) > 0; b = l.take(b) {
		b.carryOut()
		b.tellHosts()
	}
	drained = true
}

// take returns the runs of the next batch, after one that was carried out. If there are none, the worker ends.
func (l *lane) take(done batch) (b batch) {
	answered := slices.ContainsFunc(done, (*recordable).answered)
	lanes.mu.Lock()
	defer lanes.mu.Unlock()
	if answered { // the store hangs for another run, and not for all
		l.hung = nil
	}
	from := &l.ends
	if len(*from) == 0 {
		from = &l.others
	}
	n := min(len(*from), l.size)
	if n == 0 {
		l.working--
		l.endUnused()
		return nil
	}
	taken := (*from)[:n:n]
	if *from = (*from)[n:]; len(*from) == 0 {
		*from = nil
	}
	return recordables(taken)
}

// A stop is a trip as it is recorded.
type stop struct {
	event event.Event
	own   *record.Cancel
}

func (r *Recorder) stopOf(t *machine.Trip) stop {
	e, own := t.CancelEvent(&r.run.Machine().Name)
	return stop{e, own}
}

// unlessKnown decides on the cancel event, unless the store knows better.
func (s *stop) unlessKnown(t *machine.Trip) journal.Decide {
	return func(known *fold.Window) []event.Event {
		if known.TakesBack(&t.Trip) {
			return nil
		}
		return []event.Event{s.event}
	}
}

// recordTrip appends the event of the trip, unless the store knows better, and returns what the store has then. What
// cannot be read does not hold up a stop. What the store lacks of the run's pauses goes before the event: whoever reads
// that finds why it came when it did.
func (r *Recorder) recordTrip(e *Ending, limit time.Duration) (fold.Window, error) {
	s := r.stopOf(e.Trip)
	done, err := r.Transact(r.run.Values(), limit, r.missingPauses(), s.unlessKnown(e.Trip))
	return r.recordedTrip(done, err, &s)
}

// recordedTrip is what the store has after the exchange about a trip. An event that the store did not take is kept.
func (r *Recorder) recordedTrip(done journal.Result, err error, s *stop) (fold.Window, error) {
	switch {
	case err != nil:
		err = fmt.Errorf("append cancel event: %w", err)
		r.Keep(err, s.event)
		return fold.Window{Stop: s.own}, err
	case done.Kept == nil:
		return *done.Known, nil
	}
	r.recorded(done.Before, &s.event)
	return r.Journal.End(done, &s.event, s.own), nil
}

// RecordComplete appends the event that the run is complete and returns what the store has then.
func (r *Recorder) RecordComplete(t *machine.Trip) (known fold.Window, err error) {
	e := t.CompleteEvent(&r.run.Machine().Name)
	done, err := r.Transact(r.run.Values(), r.Place().Timeout, nil, func(known *fold.Window) []event.Event {
		if known.Complete() {
			return nil
		}
		return []event.Event{e}
	})
	if err == nil {
		known, err = r.EndAfter(done)
	}
	if err != nil {
		return fold.Window{}, fmt.Errorf("append complete event: %w", err)
	}
	return known, nil
}

// RecordExtension appends the event, unless the window is over, and returns what the store says then. It asks the
// store, because a trip or a Sync may have found the event there and counted it already. What cannot be read does not
// hold up the extension.
func (r *Recorder) RecordExtension(e event.Event, d time.Duration) (known fold.Window, err error) {
	var before time.Duration
	r.locked(func() { before = r.run.Machine().Seen().Extended })
	done, err := r.Transact(r.run.Values(), r.Place().Timeout, nil, func(known *fold.Window) []event.Event {
		if known.Over() {
			return nil
		}
		return []event.Event{e}
	})
	switch {
	case err != nil:
		return known, err
	case done.Kept == nil:
		return *done.Known, nil
	}
	known = r.After(done)
	known.Extended = max(known.Extended, verdict.Sum(before, d))
	return known, nil
}
