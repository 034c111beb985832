package watchdog

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/record"
)

// maxSkew is how far before a window's start its first event can be dated, where another host wrote it.
const maxSkew = time.Hour

// endKinds are the kinds of event that end a window or open the next.
var endKinds = []string{EventCancel, EventComplete, EventCorrection, EventResume}

// windowID tells the run's window from others of its aggregate.
func (w *Watchdog) windowID() windowID { return windowID{w.parentID, w.fresh} }

// windowName is the name of a window from which the IDs of its events are derived.
func (w *Watchdog) windowName(startedAt time.Time) string {
	if w.fresh != "" {
		return w.fresh
	}
	return record.Stamp(startedAt).String()
}

// onceIDs are the IDs of the end of the window that began then, and of the resume that opens the next.
func (w *Watchdog) onceIDs(startedAt time.Time) []string {
	name := w.windowName(startedAt)
	return []string{
		record.EventID(w.id, name, EventCancel, record.Once), record.EventID(w.id, name, EventResume, record.Once),
	}
}

// selection selects what tells of the window that began then.
func (w *Watchdog) selection(startedAt time.Time) Selection {
	s := Selection{AggregateType: AggregateType, AggregateID: w.id, IDs: w.onceIDs(startedAt)}
	if w.fresh == "" { // nobody else knows the name of a fresh one
		s.Since = startedAt.Add(-maxSkew)
	}
	return s
}

// readWindow reads the window that the run is in, of which the host says that it began at hostStart.
func (w *Watchdog) readWindow(ctx context.Context, hostStart time.Time) (window, error) {
	h, err := w.readHistory(ctx, hostStart)
	if err != nil {
		return window{}, fmt.Errorf("read events of run %s: %w", w.id, err)
	}
	return h.current(hostStart)
}

// readHistory reads the last windows of the run: from a store that can select by following the chain of resumes, from
// any other whole.
func (w *Watchdog) readHistory(ctx context.Context, hostStart time.Time) (*history, error) {
	store, selects := unwrapStore[TransactionalStore](w.recorder.store)
	if !selects {
		events, err := w.recorder.store.Read(ctx, AggregateType, w.id)
		return foldEvents(w.windowID(), events), err
	}
	c, err := w.followChain(ctx, store, hostStart)
	if err != nil {
		return nil, err
	}
	start, asked := c.last, w.onceIDs(c.last)
	for {
		s := w.selection(start)
		s.IDs, s.LatestOf = asked, endKinds
		events, err := store.Select(ctx, s)
		if err != nil {
			return nil, err
		}
		h := foldEvents(w.windowID(), slices.Concat(c.events, events))
		last := h.last()
		if last == nil {
			return h, nil
		}
		link := w.onceIDs(last.startedAt)
		if slices.Contains(c.ids, link[0]) || slices.Contains(asked, link[0]) {
			return h, nil
		}
		asked, start = append(asked, link...), earlier(start, last.startedAt)
	}
}

// A chain is the windows from a host's start to the last one that resumes opened after it.
type chain struct {
	ids    []string // of their ends and resumes
	events []Event  // those, as far as they are there
	last   time.Time
}

// followChain reads the chain of windows that begins at the start, which costs two events for each.
func (w *Watchdog) followChain(ctx context.Context, store TransactionalStore, start time.Time) (c chain, err error) {
	for {
		c.last = start
		link := w.onceIDs(start)
		if slices.Contains(c.ids, link[0]) { // a circle
			return c, nil
		}
		c.ids = append(c.ids, link...)
		events, err := store.Select(ctx, Selection{AggregateType: AggregateType, AggregateID: w.id, IDs: link})
		if err != nil {
			return chain{}, err
		}
		next, more := foldEvents(w.windowID(), events).after[start]
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
