package watchdog

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/seed62658d38/watchdog/internal/alarm"
	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/uptime"
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
// first. The runs of a batch share exchanges and a timeout; a store that hangs holds up only its own runs, each of them
// no longer than its timeout since its end was decided. What the store did not take is tried again by a timer, see
// lane_retry.go. A lane is there as long as a run waits in it. With PollOnly there is none: the caller carries.
//
// Rejected: an exchange and a goroutine for each run. Of fifty thousand at one instant half were not recorded in time.
type lane struct {
	laneKey
	size, most int // of a batch; of the workers

	// The mutex of all lanes guards the rest.
	ends, others []*run // not taken yet; an end is more urgent than a warning
	working      int
	retrying
}

// A laneKey is what the runs of a lane have in common.
type laneKey struct {
	store   EventStore
	timeout time.Duration
	clock   clock.Clock // the host's; nil is the machine's
	alone   *tree       // that shares with no other; the rest is empty then
}

// lanes are all lanes.
var lanes = struct {
	mu  sync.Mutex
	all map[laneKey]*lane
}{all: map[laneKey]*lane{}}

// laneKey is the key of the session's lane. A session in a testing/synctest bubble shares with none: a timer of one
// bubble cannot be set in another. Nor does one whose store or clock cannot be compared.
func (t *tree) laneKey() laneKey {
	other := t.clock.other
	inBubble := uptime.Exact && other == nil && !t.clock.base.Machine()
	compares := reflect.ValueOf(t.store).Comparable() && (other == nil || reflect.ValueOf(other).Comparable())
	if inBubble || !compares {
		return laneKey{alone: t}
	}
	return laneKey{store: t.store, timeout: t.timeout, clock: other}
}

// lane returns the session's, made if need be. The caller holds the mutex of all lanes.
func (t *tree) lane() *lane {
	key := t.laneKey()
	l := lanes.all[key]
	if l == nil {
		l = newLane(key, t)
		lanes.all[key] = l
	}
	return l
}

func newLane(key laneKey, t *tree) *lane {
	l := &lane{laneKey: key, size: 1, most: stepWorkers}
	l.store, l.timeout, l.clock = t.store, t.timeout, t.clock.other
	l.retrying = retrying{key: key, machine: t.clock.base.Machine(), item: alarm.Item[lane]{Owner: l}}
	if _, able := t.transactional(); able {
		l.size, l.most = batchSize, batchWorkers
	}
	return l
}

// enqueue has the run recorded by the workers of its lane.
func (r *run) enqueue() { enqueueAll([]*run{r}) }

// enqueueAll has runs recorded together. Those of a bubble which are found together share a lane that none comes to
// later.
func enqueueAll(runs []*run) {
	ends := make([]bool, len(runs))
	for i, r := range runs {
		r.locked(func() { ends[i] = r.ending != nil })
	}
	shared := map[laneKey]*lane{}
	lanes.mu.Lock()
	defer lanes.mu.Unlock()
	for i, r := range runs {
		key := r.tree.laneKey()
		if key.alone == nil || len(runs) == 1 || !reflect.ValueOf(r.tree.store).Comparable() {
			r.tree.lane().add(r, ends[i])
			continue
		}
		key = laneKey{store: r.tree.store, timeout: r.tree.timeout}
		if shared[key] == nil {
			shared[key] = newLane(key, r.tree)
		}
		shared[key].add(r, ends[i])
	}
}

// add puts the run in line, and has a worker come for it. The caller holds the mutex.
func (l *lane) add(r *run, ends bool) {
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
	lanes.mu.Lock()
	defer lanes.mu.Unlock()
	l.heard(done)
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
	b = make(batch, n)
	for i, r := range taken {
		b[i] = r.recordable()
	}
	return b
}

// A recordable is what a run has to record: its end, entries, or both.
type recordable struct {
	r      *run
	ending *ending // nil if the run goes on
	end    end
	// entries are those that the host is told of once they were tried.
	entries []*machine.Entry
	only    bool // there is no end to record
	began   time.Time
	window  windowExchange // of the end
	alone   bool           // it goes by itself, and none of a batch waits for it
}

func (r *run) recordable() *recordable {
	r.tree.mu.Lock()
	defer r.tree.mu.Unlock()
	one := &recordable{r: r, entries: r.untold, only: true, began: r.since}
	r.again, r.untold, r.since = false, nil, time.Time{}
	if r.ending != nil && !r.ending.here {
		one.ending, one.only, one.began = r.ending, false, r.ending.began
	}
	return one
}

// carry records what the run has to, on the goroutine of a caller that has waited since began, and tells the host.
func (r *run) carry(began time.Time) { carryAll([]*run{r}, began) }

// carryAll is carry for several runs. The hosts are told once all is recorded: they may block, or end this goroutine as
// the store may.
func carryAll(runs []*run, began time.Time) {
	b := make(batch, len(runs))
	for i, r := range runs {
		b[i] = r.recordable()
		b[i].began = began
	}
	defer b.tellHosts()
	each(b, (*recordable).carryOut)
}

func (one *recordable) carryOut() { batch{one}.carryOut() }

// left is what is left of the record timeout, all of it if nobody has waited yet.
func (one *recordable) left() time.Duration {
	if one.began.IsZero() || one.r.tree.instant() {
		return one.r.tree.timeout
	}
	return one.r.tree.left(one.began)
}

// A batch is runs of one lane that share exchanges.
type batch []*recordable

// only returns the runs of the batch that are wanted.
func (b batch) only(wanted func(*recordable) bool) (some batch) {
	for _, one := range b {
		if wanted(one) {
			some = append(some, one)
		}
	}
	return some
}

// hasEntries reports whether entries are to be recorded: those that were decided on, or of a run that goes on all that
// wait.
func (one *recordable) hasEntries() bool { return len(one.entries) > 0 || one.only }

func (one *recordable) shared() bool { return !one.alone }

// carryOut ends the runs whose end is decided, and then records what else was. When the time is over, the store is not
// asked any more: the rest ends at once. What was decided meanwhile is recorded next.
func (b batch) carryOut() {
	defer func() { // also if the store ends this goroutine
		each(b.only((*recordable).shared), (*recordable).finish)
	}()
	b.only(func(one *recordable) bool { return one.ending != nil }).share((*recordable).recordEnd, batch.endTogether)
	b.only((*recordable).hasEntries).share((*recordable).append, batch.appendTogether)
}

// share has the runs share an exchange if the store and the time allow it, and otherwise goes through them.
func (b batch) share(single func(*recordable), together func(batch)) {
	b = b.free()
	if len(b) > 1 && b[0].left() > 0 {
		together(b)
		return
	}
	each(b, single)
}

// halve has the halves of a batch that the store refused share an exchange each, until the one that is at fault is
// alone.
func (b batch) halve(single func(*recordable), together func(batch)) {
	b[:len(b)/2].share(single, together)
	b[len(b)/2:].share(single, together)
}

// free returns the runs that have no other conversation with the store. Those that have, and those that go by
// themselves already, are none of the batch.
func (b batch) free() batch {
	if len(b) < 2 || b[0].r.tree.instant() || b[0].left() <= 0 {
		return b.only((*recordable).shared)
	}
	return b.only(func(one *recordable) bool {
		if one.shared() && one.r.busy() {
			one.byItself()
		}
		return one.shared()
	})
}

// byItself does what is left to do for a run that must not hold up others, on a goroutine of its own.
func (one *recordable) byItself() {
	one.alone = true
	go func() {
		b := batch{{r: one.r, ending: one.ending, entries: one.entries, only: one.only, began: one.began}}
		defer b.tellHosts()
		b.carryOut()
	}()
}

// recordEnd records the end in an exchange of its own, and ends the run.
func (one *recordable) recordEnd() {
	known, err := fold.Window{}, errStoreExited
	defer func() { one.ended(&known, err) }() // also if the store ends this goroutine
	known, err = one.r.recordTrip(one.ending, one.left())
}

// ended ends the run, whatever the store said.
func (one *recordable) ended(known *fold.Window, err error) {
	if err != nil && known.Stop == nil { // the store ended the goroutine
		end := one.r.endOf(one.ending.trip)
		known.Stop = end.own
		one.r.keep(err, end.event)
	}
	one.r.conclude(one.ending, known, err)
	one.ending = nil
}

// append records the entries in an exchange of their own.
func (one *recordable) append() { one.r.appendPending(one.left()) }

// finish ends the job, or has what was decided meanwhile recorded.
func (one *recordable) finish() {
	r, more := one.r, false
	r.locked(func() {
		r.tried(one.entries)
		if more = r.again; !more {
			close(r.job)
			r.job = nil
		}
	})
	switch {
	case more && r.tree.inline: // who carries tells the host afterwards
		next := r.recordable()
		next.began = one.began
		next.carryOut()
	case more:
		r.enqueue()
	}
}

// endTogether records the ends in one transaction, each as if it were alone, and ends their runs.
func (b batch) endTogether() {
	b = b.enter()
	exchanges := make([]*Exchange, len(b))
	for i, one := range b {
		one.end = one.r.endOf(one.ending.trip)
		once := one.r.node.Once(one.r.node.StartedAt)
		one.window.prepare(one.r, once, one.r.missingPauses(), one.end.unlessKnown(one.ending.trip))
		exchanges[i] = &one.window.Exchange
	}
	refused, err := b.converse(func(ctx context.Context, store TransactionalStore) error {
		return store.Transact(ctx, exchanges...)
	})
	if refused {
		b.halve((*recordable).recordEnd, batch.endTogether)
		return
	}
	for _, one := range b {
		var done transacted
		if err == nil {
			done = one.window.transacted()
		}
		known, err := one.r.recordedTrip(done, err, &one.end)
		one.ended(&known, err)
	}
}

// appendTogether records the entries in one append.
func (b batch) appendTogether() {
	b = b.enter()
	refused, err := b.converse(b.appendPending)
	if refused {
		b.halve((*recordable).append, batch.appendTogether)
		return
	}
	for _, one := range b {
		if err != nil {
			missing, _ := one.r.missing()
			one.r.notStored(err, missing...)
		}
	}
}

// appendPending appends what is pending of all runs, and notes that it is stored, also if the store says so late.
func (b batch) appendPending(ctx context.Context, store TransactionalStore) error {
	pending := make([][]*machine.Entry, len(b))
	var all []Event
	for i, one := range b {
		missing, events := one.r.missing()
		pending[i], all = missing, append(all, events...)
	}
	if err := store.Append(ctx, all...); err != nil {
		return fmt.Errorf("append events: %w", err)
	}
	for i, one := range b {
		one.r.stored(pending[i])
	}
	b.checkpoint(ctx, store)
	return nil
}

// enter begins a conversation of each run. One that began another meanwhile goes by itself.
func (b batch) enter() batch {
	if b[0].r.tree.instant() {
		return b
	}
	return b.only(func(one *recordable) bool {
		entered := one.r.enterNow()
		if !entered {
			one.byItself()
		}
		return entered
	})
}

// converse has the conversation of all runs that have entered, within what is left of their time. It reports whether
// the store refused, in time: then each of its runs may have more luck.
func (b batch) converse(talk func(context.Context, TransactionalStore) error) (refused bool, err error) {
	if len(b) == 0 {
		return false, nil
	}
	t := b[0].r.tree
	store, _ := t.transactional()
	//nolint:unparam // as converse asks for it
	talkTo := func(ctx context.Context) (nothing, error) { return nothing{}, talk(ctx, store) }
	shared := sharedContext{context.Background(), b}
	if t.instant() {
		_, err = storeErr(bounded.Here(func() (nothing, error) { return talkTo(shared) }))
		return err != nil, err
	}
	ctx, cancel := clocks.WithTimeout(shared, t.clock.other, b[0].left())
	defer cancel()
	for _, one := range b { // halves of it have no more time
		if one.began.IsZero() {
			one.began = clocks.Now(t.clock.other)
		}
	}
	leave := func() {
		for _, one := range b {
			one.r.leave()
		}
	}
	_, err = converse(shared, ctx, t.timeout, leave, talkTo)
	return err != nil && ctx.Err() == nil, err
}

// A sharedContext has the values that the contexts of all runs of a batch agree on, and no end. A store that needs
// another one refuses the batch, and finds it when it is asked for each run.
type sharedContext struct {
	context.Context
	runs batch
}

// Value implements [context.Context].
func (c sharedContext) Value(key any) any {
	var found any
	for i, one := range c.runs {
		value := one.r.storeContext().Value(key)
		if value == nil || !reflect.ValueOf(value).Comparable() || i > 0 && value != found {
			return nil
		}
		found = value
	}
	return found
}

// tellHosts tells the hosts, also if one of their logs ends this goroutine. Callbacks are told on goroutines of their
// own, so that one that hangs holds up only itself.
func (b batch) tellHosts() {
	b = slices.Clone(b.only((*recordable).shared))
	if len(b) == 0 {
		return
	}
	if b[0].r.tree.inline {
		each(b, func(one *recordable) { one.r.tellHost(one.r.takeNews()) })
		return
	}
	var logs []func()
	for _, one := range b {
		n := one.r.takeNews()
		switch {
		case n == nil && !one.r.tree.trace.waiting():
		case n.callsBack(one.r):
			go one.r.tellHost(n)
		default:
			one.r.wake(n.takeAsleep())
			logs = append(logs, func() { one.r.tellHost(n) })
		}
	}
	if len(logs) > 0 {
		go each(logs, callLog)
	}
}
