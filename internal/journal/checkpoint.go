package journal

import (
	"context"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/record"
)

// CheckpointAfter is how many events are recorded until the next checkpoint is. Who attaches reads no more than that.
// Tests set it.
var CheckpointAfter = 16

// maxOlder is how many checkpoints that cannot be read are passed over before the run is read whole.
const maxOlder = 8

// checkpointing is the one kind of checkpoints.
type checkpointing struct{}

// KeepCheckpoints has the runs of the place write checkpoints and go on from them. It is called before the place is
// used. A program whose runs all begin with their watchdogs does not call it, and links nothing of that.
func (p *Place) KeepCheckpoints() { p.checkpoints = checkpointing{} }

// Much reports that so much more is known than the last checkpoint has that one is to be written soon.
func (j *Journal) Much() (much bool) {
	j.peek(func(k *known) { much = k.news >= 2*CheckpointAfter })
	return much
}

// WriteCheckpoint has one written that is due, for at most limit.
func (j *Journal) WriteCheckpoint(ctx context.Context, limit time.Duration) {
	_, _ = Within(ctx, j, limit, func(ctx context.Context) (Nothing, error) {
		j.Checkpoint(ctx)
		return Nothing{}, nil
	})
}

// Checkpoint records what the events of the run come to, if enough were recorded since it was last, so that nobody
// reads them all again. Nothing depends on it. It has what the run remembers of its steps, and is also written for that
// alone. A layer has none.
func (j *Journal) Checkpoint(ctx context.Context) { CheckpointAll(ctx, j.place, j) }

// CheckpointAll is Checkpoint for runs of one place, in one transaction if the store can.
func CheckpointAll(ctx context.Context, p *Place, of ...*Journal) {
	if p.checkpoints != nil {
		p.checkpoints.write(ctx, p, of...)
	}
}

func (checkpointing) write(ctx context.Context, p *Place, of ...*Journal) {
	if !p.Store.Transacts() {
		for _, j := range of {
			if c := j.newCheckpoint(false); c != nil { // only of what the run remembers of its steps
				_, err := Here(func() (Nothing, error) { return Nothing{}, p.Store.Append(ctx, c.stepsAlone()...) })
				c.end(err)
			}
		}
		return
	}
	var all []*checkpoint
	var exchanges []*Exchange
	for _, j := range of {
		if c := j.newCheckpoint(true); c != nil {
			all, exchanges = append(all, c), append(exchanges, &c.Exchange)
		}
	}
	if len(all) == 0 {
		return
	}
	_, err := Here(func() (Nothing, error) { return Nothing{}, p.Store.Transact(ctx, exchanges...) })
	for _, c := range all {
		c.end(err)
	}
}

// A checkpoint is the exchange that records one.
type checkpoint struct {
	Exchange
	of   *Journal
	next *fold.Base // with what was read, and the checkpoint
	news int        // events that it does not hold

	now   time.Time
	steps []byte // what the run remembers of them, nil for nothing
}

// newCheckpoint takes the turn to write a checkpoint, if one is due: of the events, or only of the steps. It returns
// nil if none is.
func (j *Journal) newCheckpoint(ofEvents bool) *checkpoint {
	if j.checkpoints() == nil || j.place.Off {
		return nil
	}
	steps := j.StepsDue(false)
	k := j.known()
	k.mu.Lock()
	due := !k.writes && (steps || ofEvents && k.news >= CheckpointAfter)
	if !due {
		k.mu.Unlock()
		return nil
	}
	k.writes = true
	base, s := k.base, k.steps
	k.mu.Unlock()
	c := &checkpoint{of: j, now: j.now()}
	if s != nil {
		c.steps = s.Take(c.now)
	}
	c.Selection = j.selection(base, j.name.StartedAt, nil)
	if base == nil {
		c.LatestOf, base = endKinds, j.newBase(j.name.StartedAt)
	}
	c.Decide = func(selected []fold.Event) []fold.Event { return c.decide(base, selected) }
	return c
}

// end ends the turn. A checkpoint that the store did not take is tried again with later events.
func (c *checkpoint) end(err error) {
	k := c.of.known()
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		c.next, c.news = nil, 0
		if c.steps != nil && k.steps != nil {
			k.steps.Lost(c.steps)
		}
	}
	k.writes, k.news = false, c.news
	if c.next != nil {
		k.base = c.next
	}
}

// decide returns the checkpoint of a run whose events were read from the base on.
func (c *checkpoint) decide(base *fold.Base, read []fold.Event) []fold.Event {
	startedAt := c.of.name.StartedAt
	with := base.With(read, startedAt, c.now)
	c.next, c.news = with, with.News(read)
	if c.news > 0 && with.Until.Equal(base.Until) { // they are under way, or one of them cannot be read
		return c.stepsAlone()
	}
	at := with.Until // as old as the newest event, so that it counts for no sign of life
	if n := record.Truncate(c.now); with.Known == 0 && n.After(at) {
		at = n
	}
	p, noted := c.payload(), with.Note(at)
	if !noted.Record(&p, startedAt) {
		return c.stepsAlone()
	}
	c.next = noted
	return c.event(at, &p)
}

func (c *checkpoint) event(at time.Time, p *record.Checkpoint) []fold.Event {
	return []fold.Event{c.of.name.Event(record.EventCheckpoint, at, "", *p)}
}

func (c *checkpoint) payload() record.Checkpoint {
	name := c.of.name
	return record.Checkpoint{
		SessionStartedAt: record.Stamp(name.StartedAt), CheckpointedAt: record.Stamp(c.now),
		Format: record.CheckpointFormat, Steps: c.steps, Parent: name.Parent,
	}
}

// stepsAlone returns a checkpoint of a run that is read whole, nothing if it has no steps.
func (c *checkpoint) stepsAlone() []fold.Event {
	if c.steps == nil {
		return nil
	}
	p := c.payload()
	return c.event(c.now, &p)
}

// newBase holds nothing of the window that began then.
func (j *Journal) newBase(startedAt time.Time) *fold.Base {
	return fold.NewBase(j.name.Window(), startedAt.Add(-maxSkew))
}

// staleBase is how old what a process knows may be before it asks for a checkpoint of another one.
const staleBase = 2 * time.Hour

func (checkpointing) newest(ctx context.Context, j *Journal) (*fold.Base, error) {
	base, until := j.base(), j.name.StartedAt
	if base != nil {
		until = base.Until
	}
	if j.now().Sub(until) <= staleBase {
		return base, nil
	}
	events, err := j.place.Store.Select(ctx, j.lastCheckpoint())
	if err != nil {
		return nil, err
	}
	newer, err := j.readCheckpoint(ctx, events, j.name.StartedAt)
	if err != nil || newer == nil || newer.Merges() || !newer.Until.After(until) {
		return base, err
	}
	j.learn(newer, 0)
	return newer, nil
}

func (checkpointing) foldIn(j *Journal, base *fold.Base, first, window time.Time, events []fold.Event) {
	if base == nil {
		base = j.newBase(first)
	}
	if news := base.News(events); news >= CheckpointAfter {
		j.learn(base.With(events, window, j.now()), news)
	}
}

// readCheckpoint returns the base of the last checkpoint that can be read and holds all that tells of a window which
// began then, nil if there is none. The events have the last of its kinds.
func (j *Journal) readCheckpoint(
	ctx context.Context, events []fold.Event, startedAt time.Time,
) (*fold.Base, error) {
	before := NewestTime
	for range maxOlder {
		last := lastOf(events, before)
		if last == nil || last.Type == record.EventResume { // one before it is of another window
			return nil, nil
		}
		if base := j.baseOf(last); base != nil && !base.From.After(startedAt.Add(-maxSkew)) {
			return base, nil
		}
		var err error
		before = last.Timestamp
		s := j.lastCheckpoint()
		s.Since = before
		if events, err = j.place.Store.Select(ctx, s); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// checkpointKinds are those of a checkpoint and of where the search for one ends: a run that has none is not searched
// from end to end.
var checkpointKinds = append([]string{record.EventCheckpoint}, endKinds...)

// lastOf returns the last of the ordered events before that time which is of one of checkpointKinds, nil if there is
// none.
func lastOf(events []fold.Event, before time.Time) *fold.Event {
	for i := range slices.Backward(events) {
		if slices.Contains(checkpointKinds, events[i].Type) && events[i].Timestamp.Before(before) {
			return &events[i]
		}
	}
	return nil
}

// NewestTime comes after every event.
var NewestTime = time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)

// baseOf is what a checkpoint tells of, nil if it is of no use: damaged, another version's, or another run's.
func (j *Journal) baseOf(e *fold.Event) *fold.Base {
	if e.Type != record.EventCheckpoint {
		return nil
	}
	p, err := fold.ReadCheckpoint(j.name.Window(), e.Payload)
	if err != nil {
		return nil
	}
	base, err := fold.BaseOf(j.name.Window(), p)
	if err != nil {
		return nil
	}
	return base
}
