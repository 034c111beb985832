package watchdog

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/fold"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/unwrap"
)

// maxSkew is how far before a window's start its first event can be dated, where another host wrote it.
const maxSkew = time.Hour

// endKinds are the kinds of event that end a window or open the next.
var endKinds = []string{EventCancel, EventComplete, EventCorrection, EventResume}

// selection selects what tells of the window that began then.
func (w *Watchdog) selection(startedAt time.Time) Selection {
	return w.selectionWith(startedAt, w.onceIDs(startedAt))
}

// selectionWith is selection for who has the window's onceIDs.
func (w *Watchdog) selectionWith(startedAt time.Time, onceIDs []string) Selection {
	s := Selection{AggregateType: AggregateType, AggregateID: w.id, IDs: onceIDs}
	if w.lineage.fresh() == "" { // nobody else knows the name of a fresh one
		s.Since = startedAt.Add(-maxSkew)
	}
	return s
}

// readWindow reads the window that the run is in, of which the host says that it began at hostStart.
func (w *Watchdog) readWindow(ctx context.Context, hostStart time.Time) (fold.Window, error) {
	h, err := w.readHistory(ctx, hostStart)
	if err != nil {
		return fold.Window{}, fmt.Errorf("read events of run %s: %w", w.id, err)
	}
	found := h.Current(hostStart)
	if err := readable(&h, found.StartedAt); err != nil {
		return found, fmt.Errorf("%w; correct or delete that event to go on with the run", err)
	}
	return found, nil
}

// readHistory reads the last windows of the run: from a store that can select by following the chain of resumes, from
// any other whole, and from memory, where that is the cheaper way.
func (w *Watchdog) readHistory(ctx context.Context, hostStart time.Time) (h fold.History, err error) {
	store, selects := unwrap.To[TransactionalStore, EventStore](w.recorder.store)
	if !selects || w.recorder.instant() {
		return w.readWhole(ctx)
	}
	c := chain{last: hostStart}
	if w.clock.now().Sub(hostStart) > maxSkew { // else what is newer than the start is read at once
		if c, err = w.followChain(ctx, store, hostStart); err != nil {
			return h, err
		}
	}
	if len(c.ids) > maxLinkIDs {
		return w.readWhole(ctx)
	}
	return w.readLast(ctx, store, c)
}

// readWhole reads all events of the run.
func (w *Watchdog) readWhole(ctx context.Context) (h fold.History, err error) {
	events, err := w.recorder.store.Read(ctx, AggregateType, w.id)
	if err != nil {
		return h, err
	}
	return w.history(events), nil
}

// readLast reads the last window, at the end of the chain or later. What came before it is asked for only if no resume
// opened it: then the host may have, after the run was complete.
func (w *Watchdog) readLast(ctx context.Context, store TransactionalStore, c chain) (h fold.History, err error) {
	start, asked, before := c.last, w.onceIDs(c.last), []string(nil)
	for {
		s := w.selection(start)
		s.IDs, s.LatestOf = asked, before
		events, err := store.Select(ctx, s)
		if err != nil {
			return h, err
		}
		h = w.history(slices.Concat(c.events, events))
		last := h.Last()
		if last != nil {
			if link := w.onceIDs(last.StartedAt); !slices.Contains(slices.Concat(c.ids, asked), link[0]) {
				asked, start = append(asked, link...), earlier(start, last.StartedAt)
				continue
			}
		}
		if before != nil || last != nil && last.OpenedBy != "" {
			return h, nil
		}
		before = endKinds
	}
}

// A chain is the windows from a host's start to the last one that resumes opened after it.
type chain struct {
	ids    []string // of their ends and resumes
	events []Event  // those, as far as they are there
	last   time.Time
}

// maxLinkIDs is how many IDs a chain is asked for, two for each window. One that goes on is as long as the run is old,
// and each link costs an exchange: together they would outlast the record timeout, at every attach.
const maxLinkIDs = 200

// followChain reads the chain of windows that begins at the start, which costs two events for each. It gives up a chain
// of more than maxLinkIDs.
func (w *Watchdog) followChain(ctx context.Context, store TransactionalStore, start time.Time) (c chain, err error) {
	for {
		c.last = start
		link := w.onceIDs(start)
		if slices.Contains(c.ids, link[0]) { // a circle
			return c, nil
		}
		if c.ids = append(c.ids, link...); len(c.ids) > maxLinkIDs {
			return c, nil
		}
		events, err := store.Select(ctx, Selection{AggregateType: AggregateType, AggregateID: w.id, IDs: link})
		if err != nil {
			return chain{}, err
		}
		h := w.history(events)
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
