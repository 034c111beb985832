package watchdog

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/record"
)

// checkpointAfter is how many events are recorded until the next checkpoint is. Who attaches reads no more than that.
// Tests set it.
var checkpointAfter = 16

// maxOlder is how many checkpoints that cannot be read are passed over before the run is read whole.
const maxOlder = 8

// A knownWindow is what a process knows of its window without reading it again. The tree's mu guards it.
type knownWindow struct {
	base   *fold.Base         // nil while it would hold next to nothing
	news   int                // events since the last checkpoint
	writes bool               // a checkpoint is being written
	steps  *record.Checkpoint // the last one that was read, for the state of Step in it
}

// ofFolded is made at the first need: most runs have few events. The caller holds mu.
func (r *run) ofFolded() *knownWindow {
	if r.folded == nil {
		r.folded = &knownWindow{}
	}
	return r.folded
}

// base is what the process has folded, nil if it reads its window from the beginning.
func (r *run) base() (base *fold.Base) {
	r.locked(func() {
		if r.folded != nil {
			base = r.folded.base
		}
	})
	return base
}

// learn has the process go on from the base, after it has read that many events more than a checkpoint has.
func (r *run) learn(b *fold.Base, news int) {
	r.locked(func() {
		f := r.ofFolded()
		f.base, f.news = b, f.news+news
	})
}

// appended counts events that the store has. The caller holds mu.
func (r *run) appended(events int) {
	if !r.node.Begins {
		r.ofFolded().news += events
	}
}

// checkpointDue takes the turn to write a checkpoint, if one is due.
func (r *run) checkpointDue(steps bool) (base *fold.Base, due bool) {
	r.tree.mu.Lock()
	defer r.tree.mu.Unlock()
	f := r.ofFolded()
	due = !f.writes && (steps || f.news >= checkpointAfter)
	f.writes = f.writes || due
	return f.base, due
}

// checkpoint records what the events of the run come to, if enough were recorded since it was last, so that nobody
// reads them all again. Nothing depends on it. It has what the run remembers of its steps, and is also written for that
// alone. A layer has none: nobody attaches to its window.
func (r *run) checkpoint(ctx context.Context) {
	if r.node.Begins || r.disabled {
		return
	}
	store, able := r.tree.transactional()
	steps := r.recordsSteps().Due(clocks.Now(r.tree.clock.other))
	if !able && !steps {
		return
	}
	base, due := r.checkpointDue(steps)
	if !due {
		return
	}
	c := r.newCheckpoint(base)
	_, err := bounded.Here(func() (nothing, error) {
		if able {
			return nothing{}, store.Transact(ctx, &c.Exchange)
		}
		return nothing{}, r.tree.store.Append(ctx, c.stepsAlone(r)...)
	})
	r.checkpointed(c, err)
}

// checkpointed ends the turn. A checkpoint that the store did not take is tried again with later events.
func (r *run) checkpointed(c *checkpoint, err error) {
	if err != nil {
		c.next, c.news = nil, 0
		r.recordsSteps().Lost(c.steps)
	}
	r.locked(func() {
		f := r.ofFolded()
		f.writes, f.news = false, c.news
		if c.next != nil {
			f.base = c.next
		}
	})
}

// checkpointSoon has recorded in the background what the process knows and no checkpoint has, if that is much.
func (r *run) checkpointSoon() {
	much := false
	r.locked(func() { much = r.folded != nil && r.folded.news >= 2*checkpointAfter })
	if much && !r.tree.inline {
		r.checkpointAside()
	}
}

// checkpointAside has a checkpoint written on another goroutine, unless something of the run is being recorded: then
// one is written after that.
func (r *run) checkpointAside() {
	if r.tree.instant() { // nobody has to wait for another goroutine
		r.writeCheckpoint(r.tree.timeout)
		return
	}
	begins := false
	r.locked(func() {
		if begins = r.job == nil; begins {
			r.job = make(chan struct{})
		}
	})
	if begins {
		go func() {
			defer (&recordable{r: r}).finish() // also if the store ends this goroutine
			r.writeCheckpoint(r.tree.timeout)
		}()
	}
}

// writeCheckpoint has one written that is due, for at most limit.
func (r *run) writeCheckpoint(limit time.Duration) {
	_, _ = exchangeWithin(r.storeContext(), r, limit, func(ctx context.Context) (nothing, error) {
		r.checkpoint(ctx)
		return nothing{}, nil
	})
}

// checkpoint records those of the runs that are due, in one transaction.
func (b batch) checkpoint(ctx context.Context, store TransactionalStore) {
	var due batch
	var all []*checkpoint
	var exchanges []*Exchange
	for _, one := range b {
		if one.r.node.Begins {
			continue
		}
		steps := one.r.recordsSteps().Due(clocks.Now(one.r.tree.clock.other))
		if base, is := one.r.checkpointDue(steps); is {
			c := one.r.newCheckpoint(base)
			due, all, exchanges = append(due, one), append(all, c), append(exchanges, &c.Exchange)
		}
	}
	if len(due) == 0 {
		return
	}
	_, err := bounded.Here(func() (nothing, error) { return nothing{}, store.Transact(ctx, exchanges...) })
	for i, one := range due {
		one.r.checkpointed(all[i], err)
	}
}

// A checkpoint is the exchange that records one.
type checkpoint struct {
	Exchange
	next *fold.Base // with what was read, and the checkpoint
	news int        // events that it does not hold

	now   time.Time
	steps []byte // what the run remembers of them, nil for nothing
}

func (r *run) newCheckpoint(base *fold.Base) *checkpoint {
	c := &checkpoint{now: clocks.Now(r.tree.clock.other)}
	c.steps = r.recordsSteps().Take(c.now)
	c.Selection = r.selectionFrom(base, r.node.StartedAt, nil)
	if base == nil {
		c.LatestOf, base = endKinds, r.newBase(r.node.StartedAt)
	}
	c.Decide = func(selected []Event) []Event { return c.decide(r, base, toFold(selected)) }
	return c
}

// decide returns the checkpoint of a run whose events were read from the base on.
func (c *checkpoint) decide(r *run, base *fold.Base, read []fold.Event) []Event {
	with := base.With(read, r.node.StartedAt, c.now)
	c.next, c.news = with, with.News(read)
	if c.news > 0 && with.Until.Equal(base.Until) { // they are under way, or one of them cannot be read
		return c.stepsAlone(r)
	}
	at := with.Until // as old as the newest event, so that it counts for no sign of life
	if n := record.Truncate(c.now); with.Known == 0 && n.After(at) {
		at = n
	}
	p, noted := c.payload(r), with.Note(at)
	if !noted.Record(&p, r.node.StartedAt) {
		return c.stepsAlone(r)
	}
	c.next = noted
	return []Event{Event(r.node.Event(EventCheckpoint, at, "", p))}
}

func (c *checkpoint) payload(r *run) record.Checkpoint {
	return record.Checkpoint{
		SessionStartedAt: record.Stamp(r.node.StartedAt), CheckpointedAt: record.Stamp(c.now),
		Format: record.CheckpointFormat, Steps: c.steps, Parent: r.node.Parent,
	}
}

// stepsAlone returns a checkpoint of a run that is read whole, nothing if it has no steps.
func (c *checkpoint) stepsAlone(r *run) []Event {
	if c.steps == nil {
		return nil
	}
	return []Event{Event(r.node.Event(EventCheckpoint, c.now, "", c.payload(r)))}
}

// newBase holds nothing of the window that began then.
func (r *run) newBase(startedAt time.Time) *fold.Base {
	return fold.NewBase(r.node.Window(), startedAt.Add(-maxSkew))
}

// readCheckpoint returns the base of the last checkpoint that can be read and holds all that tells of a window which
// began then, nil if there is none. The events have the last of its kinds.
func (r *run) readCheckpoint(
	ctx context.Context, store TransactionalStore, events []Event, startedAt time.Time,
) (*fold.Base, error) {
	before := newestTime
	for range maxOlder {
		last := lastOf(checkpointKinds, events, before)
		if last == nil || last.Type == EventResume { // one before it is of another window
			return nil, nil
		}
		if base := r.baseOf(last); base != nil && !base.From.After(startedAt.Add(-maxSkew)) {
			return base, nil
		}
		var err error
		before = last.Timestamp
		events, err = store.Select(ctx, Selection{
			AggregateType: AggregateType, AggregateID: r.node.Run, Since: before, LatestOf: checkpointKinds,
		})
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// checkpointKinds are those of a checkpoint and of where the search for one ends: a run that has none is not searched
// from end to end.
var checkpointKinds = append([]string{EventCheckpoint}, endKinds...)

// lastOf returns the last of the ordered events before that time which is of one of the kinds, nil if there is none.
func lastOf(kinds []string, events []Event, before time.Time) *Event {
	for i := range slices.Backward(events) {
		if slices.Contains(kinds, events[i].Type) && events[i].Timestamp.Before(before) {
			return &events[i]
		}
	}
	return nil
}

// newestTime comes after every event.
var newestTime = time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)

// baseOf is what a checkpoint tells of, nil if it is of no use: damaged, another version's, or another run's.
func (r *run) baseOf(e *Event) *fold.Base {
	if e.Type != EventCheckpoint {
		return nil
	}
	p, err := fold.ReadCheckpoint(r.node.Window(), e.Payload)
	if err != nil {
		return nil
	}
	base, err := fold.BaseOf(r.node.Window(), p)
	if err != nil {
		return nil
	}
	return base
}

// noteSteps keeps the last of the events that has what a run remembers of its steps, for whoever attaches.
func (r *run) noteSteps(events []Event) {
	for _, e := range slices.Backward(events) {
		if e.Type != EventCheckpoint || !bytes.Contains(e.Payload, []byte(`"steps"`)) {
			continue
		}
		if p, err := fold.ReadCheckpoint(r.node.Window(), e.Payload); err == nil && len(p.Steps) > 0 {
			r.keepSteps(p)
			return
		}
	}
}

func (r *run) keepSteps(p *record.Checkpoint) {
	r.locked(func() {
		f := r.ofFolded()
		if f.steps == nil || !time.Time(p.CheckpointedAt).Before(time.Time(f.steps.CheckpointedAt)) {
			f.steps = p
		}
	})
}

// takeSteps returns what was kept, once.
func (r *run) takeSteps() (p *record.Checkpoint) {
	r.locked(func() {
		if r.folded != nil {
			p, r.folded.steps = r.folded.steps, nil
		}
	})
	return p
}
