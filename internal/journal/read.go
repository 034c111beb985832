package journal

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/ordered"
	"github.com/seed62658d38/watchdog/internal/record"
)

// maxSkew is how far before a window's start its first event can be dated, where another host wrote it.
const maxSkew = time.Hour

// endKinds are the kinds of event that end a window or open the next.
var endKinds = []string{event.Cancel, event.Complete, event.Correction, event.Resume}

// history is what the events say of the run besides the base, and those which are known without having been selected
// from it.
func (j *Journal) history(base *fold.Base, events []event.Event, besides ...event.Event) fold.History {
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
func (j *Journal) fromBase(base *fold.Base, events []event.Event, besides ...event.Event) fold.Window {
	h := j.history(base, events, besides...)
	return h.At(j.name.StartedAt)
}

// checked is what the events say of the window, or an error if one of them cannot be read.
func (j *Journal) checked(h fold.History) (fold.Window, error) {
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
func (j *Journal) selection(base *fold.Base, startedAt time.Time, once []string) event.Selection {
	s := event.Selection{AggregateType: event.AggregateType, AggregateID: j.name.Run, IDs: once}
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

// readHistory reads the last windows of the run: from a store that can select what this process does not know yet, from
// any other all.
func (j *Journal) readHistory(ctx context.Context, hostStart time.Time) (h fold.History, err error) {
	if store := &j.place.Store; !store.Transacts() || store.isSmall(j.name.Run) {
		return j.ReadWhole(ctx)
	}
	base, start, events := j.base(), hostStart, []event.Event(nil)
	if base == nil && j.now().Sub(hostStart) > maxSkew { // else what is newer is read at once
		if start, events, err = j.latestStart(ctx, hostStart); err != nil {
			return h, err
		}
	}
	return j.readLast(ctx, base, start, events)
}

// ReadWhole reads all events of the run.
func (j *Journal) ReadWhole(ctx context.Context) (h fold.History, err error) {
	events, err := j.place.Store.ReadRun(ctx, j.name.Run)
	if err != nil {
		return h, err
	}
	return j.history(nil, events), nil
}

// latestStart returns the start of the window that was opened last, if one was after the host's, and the events that
// say so: those before it need not be read.
func (j *Journal) latestStart(ctx context.Context, hostStart time.Time) (time.Time, []event.Event, error) {
	s := event.Selection{AggregateType: event.AggregateType, AggregateID: j.name.Run, IDs: j.name.Once(hostStart)}
	link, err := j.place.Store.Transactional.Select(ctx, s)
	if err != nil {
		return hostStart, nil, err
	}
	h := j.history(nil, link)
	start, resumed := h.Next(hostStart)
	if !resumed {
		return hostStart, link, nil
	}
	s.IDs, s.Since, s.LatestOf = nil, NewestTime, []string{event.Resume}
	newest, err := j.place.Store.Transactional.Select(ctx, s)
	if err != nil {
		return start, nil, err
	}
	h = j.history(nil, newest)
	if last := h.Last(); last != nil { // else it is another run's
		start = last.StartedAt
	}
	return start, union(link, newest), nil
}

// readLast reads the last window, which began at the start or was opened after that one. The events are known. What
// came before it is asked for only if no resume opened it: then the host may have, after the run was complete. A base
// has that.
func (j *Journal) readLast(
	ctx context.Context, base *fold.Base, start time.Time, events []event.Event,
) (h fold.History, err error) {
	asked := append(j.name.Once(start), record.StartID(j.name.Run, j.name.Parent))
	before, read, next := []string(nil), false, (*fold.Base)(nil)
	for {
		s := j.selection(base, start, asked)
		if s.LatestOf = before; read && base == nil { // unless the start is an earlier one now, all was read
			s.Until, s.Known = NewestTime, countFrom(events, s.Since)
		}
		more, err := j.place.Store.Transactional.Select(ctx, s)
		if err != nil {
			return h, err
		}
		if all := union(events, more); !read || len(all) > len(events) {
			events = all
			h, next = j.fold(base, start, events)
		}
		read = true
		last := fold.Window{StartedAt: start}
		if found := h.Last(); found != nil {
			last = *found
		}
		if link := j.name.Once(last.StartedAt); !slices.Contains(asked, link[0]) {
			asked, start = append(asked, link...), earlier(start, last.StartedAt)
			continue
		}
		if base == nil && before == nil && last.OpenedBy == "" {
			before = endKinds
			continue
		}
		j.learn(&h, last.StartedAt, next)
		return h, nil
	}
}

// fold is what the events say of the run, which were read from the base on or, without one, since that start. Of many
// new ones it makes a base to go on from.
func (j *Journal) fold(base *fold.Base, start time.Time, events []event.Event) (h fold.History, next *fold.Base) {
	from := base
	if from == nil {
		from = fold.NewBase(j.name.Window(), start.Add(-maxSkew))
	}
	if j.name.Begins || from.News(events) < Much {
		return j.history(base, events), nil
	}
	return from.Read(events, j.now())
}

// learn has the process go on from the base, if there is one, unless something of the window which began then cannot be
// read: somebody may correct it.
func (j *Journal) learn(h *fold.History, window time.Time, base *fold.Base) {
	if base != nil && h.Unreadable(window) == nil {
		j.known().locked(func(k *known) { k.base, k.news = base, 0 })
	}
}

// Much is how many events a process reads or records until it notes how far it has read. Tests set it.
var Much = 32

// Appended counts events that the store has taken.
func (j *Journal) Appended(events int) {
	if !j.name.Begins && j.place.Store.Transacts() {
		j.known().locked(func(k *known) { k.news += events })
	}
}

// ReadAlong reads what the run has recorded, if that is much, so that a trip does not have to.
func (j *Journal) ReadAlong(ctx context.Context) {
	much := false
	if k := j.more.Load(); k != nil {
		k.locked(func(k *known) {
			if much = k.news >= Much; much {
				k.news = 0
			}
		})
	}
	if much {
		_, _ = Here(func() (fold.Window, error) { return j.readOn(ctx) })
	}
}

// readOn reads what this process does not know yet of its window.
func (j *Journal) readOn(ctx context.Context) (known fold.Window, err error) {
	base, startedAt := j.base(), j.name.StartedAt
	s := j.selection(base, startedAt, j.once())
	if base != nil && base.Wide() {
		s.Known = 0
	}
	events, err := j.place.Store.Transactional.Select(ctx, s)
	if err != nil {
		return known, fmt.Errorf("read events: %w", err)
	}
	h, next := j.fold(base, startedAt, events)
	j.learn(&h, startedAt, next)
	return j.checked(h)
}

func countFrom(events []event.Event, since time.Time) (n int) {
	for i := range events {
		if !events[i].Timestamp.Before(since) {
			n++
		}
	}
	return n
}

// union returns all of the events, each once and in their order.
func union(some, others []event.Event) []event.Event {
	if len(some) == 0 {
		return others
	}
	all := slices.Concat(some, others)
	ordered.Sort(all, event.Event.Compare)
	return slices.CompactFunc(all, func(a, b event.Event) bool { return a.ID == b.ID })
}

// NewestTime comes after every event.
var NewestTime = time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)

func earlier(one, other time.Time) time.Time {
	if other.Before(one) {
		return other
	}
	return one
}
