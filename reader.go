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
func (w *Watchdog) windowID() windowID { return windowID{w.lineage.parent(), w.lineage.fresh()} }

// windowName is the name of a window from which the IDs of its events are derived.
func (w *Watchdog) windowName(startedAt time.Time) string {
	if w.lineage.fresh() != "" {
		return w.lineage.fresh()
	}
	return record.Stamp(startedAt).String()
}

// onceIDs are the IDs of the end of the window that began then, and of the resume that opens the next.
func (w *Watchdog) onceIDs(startedAt time.Time) []string {
	return w.onceIDsWith(startedAt, record.EventID(w.id, w.windowName(startedAt), EventCancel, record.Once))
}

// onceIDsWith is onceIDs for who has the ID of the end.
func (w *Watchdog) onceIDsWith(startedAt time.Time, end string) []string {
	return []string{end, record.EventID(w.id, w.windowName(startedAt), EventResume, record.Once)}
}

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
func (w *Watchdog) readWindow(ctx context.Context, hostStart time.Time) (window, error) {
	h, err := w.readHistory(ctx, hostStart)
	if err != nil {
		return window{}, fmt.Errorf("read events of run %s: %w", w.id, err)
	}
	if h == nil {
		return window{startedAt: hostStart}, nil
	}
	return h.current(hostStart)
}

// readHistory reads the last windows of the run: from a store that can select by following the chain of resumes, from
// any other whole, and from memory, where that is the cheaper way. It returns nil for a run without events.
func (w *Watchdog) readHistory(ctx context.Context, hostStart time.Time) (*history, error) {
	store, selects := unwrapStore[TransactionalStore](w.recorder.store)
	if !selects || w.recorder.instant() {
		events, err := w.recorder.store.Read(ctx, AggregateType, w.id)
		if err != nil || len(events) == 0 {
			return nil, err
		}
		return foldEvents(w.windowID(), events), nil
	}
	chain, start, err := w.followChain(ctx, store, hostStart)
	if err != nil {
		return nil, err
	}
	for {
		s := w.selection(start)
		s.IDs, s.LatestOf = chain, endKinds
		events, err := store.Select(ctx, s)
		if err != nil {
			return nil, err
		}
		h := foldEvents(w.windowID(), events)
		last := h.last()
		if last == nil || slices.Contains(chain, w.onceIDs(last.startedAt)[0]) {
			return h, nil
		}
		chain, start = append(chain, w.onceIDs(last.startedAt)...), earlier(start, last.startedAt)
	}
}

// followChain goes from the host's start to the last window that resumes opened after it. It returns the IDs of the
// ends and resumes on the way, and the start of that window.
func (w *Watchdog) followChain(
	ctx context.Context, store TransactionalStore, start time.Time,
) (ids []string, last time.Time, err error) {
	for {
		link := w.onceIDs(start)
		if slices.Contains(ids, link[0]) { // a circle
			return ids, start, nil
		}
		ids = append(ids, link...)
		events, err := store.Select(ctx, Selection{AggregateType: AggregateType, AggregateID: w.id, IDs: link})
		if err != nil {
			return nil, start, err
		}
		next, more := foldEvents(w.windowID(), events).after[start]
		if !more {
			return ids, start, nil
		}
		start = next
	}
}

func earlier(one, other time.Time) time.Time {
	if other.Before(one) {
		return other
	}
	return one
}
