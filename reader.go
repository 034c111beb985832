package watchdog

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/fold"
)

// maxSkew is how far before a window's start its first event can be dated, where another host wrote it.
const maxSkew = time.Hour

// endKinds are the kinds of event that end a window or open the next.
var endKinds = []string{EventCancel, EventComplete, EventCorrection, EventResume}

// selectionFrom selects what tells of the window that began then, besides the base. These are its onceIDs.
func (r *run) selectionFrom(base *fold.Base, startedAt time.Time, onceIDs []string) Selection {
	s := Selection{AggregateType: AggregateType, AggregateID: r.node.Run, IDs: onceIDs}
	switch {
	case r.node.Begins: // nobody else knows its name
	case base != nil:
		s.Since, s.Until, s.Known = base.Since, base.Until, base.Known
	default:
		s.Since = startedAt.Add(-maxSkew)
	}
	return s
}

// readWindow reads the window that the run is in, of which the host says that it began at hostStart.
func (r *run) readWindow(ctx context.Context, hostStart time.Time) (fold.Window, error) {
	h, err := r.readHistory(ctx, hostStart)
	if err != nil {
		return fold.Window{}, fmt.Errorf("read events of run %s: %w", r.node.Run, err)
	}
	found := h.Current(hostStart)
	if err := readable(&h, found.StartedAt); err != nil {
		return found, fmt.Errorf("%w; correct or delete that event to go on with the run", err)
	}
	return found, nil
}

// smallRun is how many events of a run are read at once from memory.
const smallRun = 32

// readHistory reads the last windows of the run: from a store that can select by following the chain of resumes, and
// from the last checkpoint on, from any other whole.
func (r *run) readHistory(ctx context.Context, hostStart time.Time) (h fold.History, err error) {
	store, selects := r.tree.transactional()
	if !selects || r.tree.instant() && countIn(r.tree.store, r.node.Run) <= smallRun {
		return r.readWhole(ctx)
	}
	c := chain{last: hostStart}
	switch age := clocks.Now(r.tree.clock.other).Sub(hostStart); {
	case age > maxSkew:
		c, err = r.followChain(ctx, store, hostStart)
	case age > freshRun: // what is newer than the start is read at once
		c.checkpoints, err = store.Select(ctx, r.lastCheckpoint())
	}
	if err != nil {
		return h, err
	}
	if len(c.ids) > maxLinkIDs {
		return r.readWhole(ctx)
	}
	return r.readLast(ctx, store, c)
}

// freshRun is how long a run has hardly any events.
const freshRun = time.Minute

// lastCheckpoint selects the last one of the run, or what came after it.
func (r *run) lastCheckpoint() Selection {
	return Selection{AggregateType: AggregateType, AggregateID: r.node.Run, Since: newestTime, LatestOf: checkpointKinds}
}

// readWhole reads all events of the run.
func (r *run) readWhole(ctx context.Context) (h fold.History, err error) {
	events, err := r.tree.store.Read(ctx, AggregateType, r.node.Run)
	if err != nil {
		return h, err
	}
	r.noteSteps(events)
	return r.history(events), nil
}

// readLast reads the last window, at the end of the chain or later, from the last checkpoint on if there is one. What
// came before it is asked for only if no resume opened it: then the host may have, after the run was complete. A
// checkpoint has that.
func (r *run) readLast(ctx context.Context, store TransactionalStore, c chain) (h fold.History, err error) {
	base, err := r.readCheckpoint(ctx, store, c.checkpoints, c.last)
	if err != nil {
		return h, err
	}
	start, asked, before, events := c.last, r.node.Once(c.last), []string(nil), []Event(nil)
	for {
		s := r.selectionFrom(base, start, asked)
		if s.LatestOf = before; before != nil { // all the rest was read
			s.Until, s.Known = newestTime, countFrom(events, s.Since)
		}
		more, err := store.Select(ctx, s)
		if err != nil {
			return h, err
		}
		events = union(events, more)
		h = r.historyFrom(base, events, c.events...)
		last := h.Last()
		if last != nil {
			if link := r.node.Once(last.StartedAt); !slices.Contains(slices.Concat(c.ids, asked), link[0]) {
				asked, start = append(asked, link...), earlier(start, last.StartedAt)
				continue
			}
		}
		if base == nil && before == nil && (last == nil || last.OpenedBy == "") {
			before = endKinds
			continue
		}
		r.noteSteps(c.checkpoints)
		r.noteSteps(events)
		r.takeBase(base, start, last, events)
		return h, nil
	}
}

// countFrom counts the events from that time on.
func countFrom(events []Event, since time.Time) (n int) {
	for i := range events {
		if !events[i].Timestamp.Before(since) {
			n++
		}
	}
	return n
}

// union returns all of the events, each once and in their order.
func union(some, others []Event) []Event {
	if len(some) == 0 {
		return others
	}
	all := slices.SortedFunc(slices.Values(slices.Concat(some, others)), Event.Compare)
	return slices.CompactFunc(all, func(a, b Event) bool { return a.ID == b.ID })
}

// takeBase has the process go on from what was read of the run whose last window that is.
func (r *run) takeBase(base *fold.Base, start time.Time, last *fold.Window, events []Event) {
	if base != nil {
		r.learn(base, 0)
	}
	if last != nil {
		r.foldIn(base, start, last.StartedAt, events)
	}
}

// A chain is the windows from a host's start to the last one that resumes opened after it.
type chain struct {
	ids    []string // of their ends and resumes
	events []Event  // those, as far as they are there
	last   time.Time

	checkpoints []Event // what lastCheckpoint selects is among them
}

// maxLinkIDs is how many IDs a chain is asked for, two for each window. One that goes on is as long as the run is old,
// and each link costs an exchange: together they would outlast the record timeout, at every attach.
const maxLinkIDs = 200

// followChain reads the chain of windows that begins at the start, which costs two events for each. It gives up a chain
// of more than maxLinkIDs.
func (r *run) followChain(ctx context.Context, store TransactionalStore, start time.Time) (c chain, err error) {
	for {
		c.last = start
		link := r.node.Once(start)
		if slices.Contains(c.ids, link[0]) { // a circle
			return c, nil
		}
		if c.ids = append(c.ids, link...); len(c.ids) > maxLinkIDs {
			return c, nil
		}
		s := Selection{AggregateType: AggregateType, AggregateID: r.node.Run, IDs: link}
		if c.checkpoints == nil {
			s = r.lastCheckpoint()
			s.IDs = link
		}
		events, err := store.Select(ctx, s)
		if err != nil {
			return chain{}, err
		}
		if c.checkpoints == nil { // a resume with another ID is one of several, of which the window's events tell
			c.checkpoints = events
			events = slices.DeleteFunc(slices.Clone(events), func(e Event) bool { return !slices.Contains(link, e.ID) })
		}
		h := r.history(events)
		next, more := h.Next(start)
		if !more { // its own are read together with the window
			return c, nil
		}
		c.events = append(c.events, events...)
		start = next
	}
}

func earlier(one, other time.Time) time.Time {
	if other.Before(one) {
		return other
	}
	return one
}
