package journal

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/ordered"
	"github.com/seed62658d38/watchdog/internal/record"
)

// maxSkew is how far before a window's start its first event can be dated, where another host wrote it.
const maxSkew = time.Hour

// endKinds are the kinds of event that end a window or open the next.
var endKinds = []string{record.EventCancel, record.EventComplete, record.EventCorrection, record.EventResume}

// history is what the events say of the run besides the base, and those which are known without having been selected
// from it.
func (j *Journal) history(base *fold.Base, events []fold.Event, besides ...fold.Event) fold.History {
	if base != nil {
		return base.Of(events, besides...)
	}
	if len(besides) > 0 {
		events = slices.Concat(events, besides)
	}
	if len(events) == 0 {
		return fold.History{}
	}
	return fold.Of(j.name.Window(), events)
}

// fromBase is what the events say of the window besides the base, as far as they can be read.
func (j *Journal) fromBase(base *fold.Base, events []fold.Event, besides ...fold.Event) fold.Window {
	h := j.history(base, events, besides...)
	return h.At(j.name.StartedAt)
}

// checked is what the events say of the window besides the base, or an error if one of them cannot be read.
func (j *Journal) checked(base *fold.Base, events []fold.Event) (fold.Window, error) {
	h := j.history(base, events)
	if err := readable(&h, j.name.StartedAt); err != nil {
		return fold.Window{}, err
	}
	return h.At(j.name.StartedAt), nil
}

func readable(h *fold.History, window time.Time) error {
	if e := h.Unreadable(window); e != nil {
		return fmt.Errorf("%w %w", ErrUnreadableEvent, e)
	}
	return nil
}

// once are the IDs of the end of the window and of the resume that opens the next.
func (j *Journal) once() []string { return j.name.Once(j.name.StartedAt) }

// selection selects what tells of the window that began then, besides the base. These are the IDs of its end.
func (j *Journal) selection(base *fold.Base, startedAt time.Time, once []string) fold.Selection {
	s := fold.Selection{AggregateType: record.AggregateType, AggregateID: j.name.Run, IDs: once}
	switch {
	case j.name.Begins: // nobody else knows its name
	case base != nil:
		s.Since, s.Until, s.Known = base.Since, base.Until, base.Known
	default:
		s.Since = startedAt.Add(-maxSkew)
	}
	return s
}

// ReadWindow reads the window that the run is in, of which the host says that it began at hostStart.
func (j *Journal) ReadWindow(ctx context.Context, hostStart time.Time) (fold.Window, error) {
	h, err := j.readHistory(ctx, hostStart)
	if err != nil {
		return fold.Window{}, fmt.Errorf("read events of run %s: %w", j.name.Run, err)
	}
	found := h.Current(hostStart)
	if err := readable(&h, found.StartedAt); err != nil {
		return found, fmt.Errorf("%w; correct or delete that event to go on with the run", err)
	}
	return found, nil
}

// freshRun is how long a run has hardly any events.
const freshRun = time.Minute

// readHistory reads the last windows of the run: from a store that can select by following the chain of resumes, and
// from the last checkpoint on, from any other whole.
func (j *Journal) readHistory(ctx context.Context, hostStart time.Time) (h fold.History, err error) {
	if store := j.place.Store; !store.Transacts() || store.Few(j.name.Run) {
		return j.ReadWhole(ctx)
	}
	c := chain{last: hostStart}
	switch age := j.now().Sub(hostStart); {
	case age > maxSkew:
		c, err = j.followChain(ctx, hostStart)
	case age > freshRun: // what is newer than the start is read at once
		c.checkpoints, err = j.place.Store.Select(ctx, j.lastCheckpoint())
	}
	if err != nil {
		return h, err
	}
	if len(c.ids) > maxLinkIDs {
		return j.ReadWhole(ctx)
	}
	return j.readLast(ctx, c)
}

// lastCheckpoint selects the last one of the run, or what came after it.
func (j *Journal) lastCheckpoint() fold.Selection {
	return fold.Selection{
		AggregateType: record.AggregateType, AggregateID: j.name.Run, Since: NewestTime, LatestOf: checkpointKinds,
	}
}

// ReadWhole reads all events of the run.
func (j *Journal) ReadWhole(ctx context.Context) (h fold.History, err error) {
	events, err := j.place.Store.Read(ctx, j.name.Run)
	if err != nil {
		return h, err
	}
	j.noteSteps(events)
	return j.history(nil, events), nil
}

// readLast reads the last window, at the end of the chain or later, from the last checkpoint on if there is one. What
// came before it is asked for only if no resume opened it: then the host may have, after the run was complete. A
// checkpoint has that.
func (j *Journal) readLast(ctx context.Context, c chain) (h fold.History, err error) {
	base, err := j.readCheckpoint(ctx, c.checkpoints, c.last)
	if err != nil {
		return h, err
	}
	start, asked, before, events := c.last, j.name.Once(c.last), []string(nil), []fold.Event(nil)
	for {
		s := j.selection(base, start, asked)
		if s.LatestOf = before; before != nil { // all the rest was read
			s.Until, s.Known = NewestTime, countFrom(events, s.Since)
		}
		more, err := j.place.Store.Select(ctx, s)
		if err != nil {
			return h, err
		}
		events = union(events, more)
		h = j.history(base, events, c.events...)
		last := h.Last()
		if last != nil {
			if link := j.name.Once(last.StartedAt); !slices.Contains(slices.Concat(c.ids, asked), link[0]) {
				asked, start = append(asked, link...), earlier(start, last.StartedAt)
				continue
			}
		}
		if base == nil && before == nil && (last == nil || last.OpenedBy == "") {
			before = endKinds
			continue
		}
		j.noteSteps(c.checkpoints)
		j.noteSteps(events)
		j.takeBase(base, start, last, events)
		return h, nil
	}
}

func countFrom(events []fold.Event, since time.Time) (n int) {
	for i := range events {
		if !events[i].Timestamp.Before(since) {
			n++
		}
	}
	return n
}

// union returns all of the events, each once and in their order.
func union(some, others []fold.Event) []fold.Event {
	if len(some) == 0 {
		return others
	}
	all := slices.Concat(some, others)
	ordered.Sort(all, fold.Event.Compare)
	return slices.CompactFunc(all, func(a, b fold.Event) bool { return a.ID == b.ID })
}

// takeBase has the process go on from what was read of the run whose last window that is.
func (j *Journal) takeBase(base *fold.Base, start time.Time, last *fold.Window, events []fold.Event) {
	if base != nil {
		j.learn(base, 0)
	}
	if c := j.checkpoints(); c != nil && last != nil {
		c.foldIn(j, base, start, last.StartedAt, events)
	}
}

// A chain is the windows from a host's start to the last one that resumes opened after it.
type chain struct {
	ids    []string     // of their ends and resumes
	events []fold.Event // those, as far as they are there
	last   time.Time

	checkpoints []fold.Event // what lastCheckpoint selects is among them
}

// maxLinkIDs is how many IDs a chain is asked for, two for each window. One that goes on is as long as the run is old,
// and each link costs an exchange: together they would outlast the record timeout, at every attach.
const maxLinkIDs = 200

// followChain reads the chain of windows that begins at the start, which costs two events for each. It gives up a chain
// of more than maxLinkIDs.
func (j *Journal) followChain(ctx context.Context, start time.Time) (c chain, err error) {
	for {
		c.last = start
		link := j.name.Once(start)
		if slices.Contains(c.ids, link[0]) { // a circle
			return c, nil
		}
		if c.ids = append(c.ids, link...); len(c.ids) > maxLinkIDs {
			return c, nil
		}
		s := fold.Selection{AggregateType: record.AggregateType, AggregateID: j.name.Run, IDs: link}
		if c.checkpoints == nil {
			s = j.lastCheckpoint()
			s.IDs = link
		}
		events, err := j.place.Store.Select(ctx, s)
		if err != nil {
			return chain{}, err
		}
		if c.checkpoints == nil { // a resume with another ID is one of several, of which the window's events tell
			c.checkpoints = events
			events = slices.DeleteFunc(slices.Clone(events), func(e fold.Event) bool { return !slices.Contains(link, e.ID) })
		}
		h := j.history(nil, events)
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
