package watchdog

import (
	"fmt"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/fold"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/record"
)

// A lineage tells a run or window from others, where the run is a layer of another or the window is a fresh one.
type lineage struct {
	parentID string
	window   string // drawn when it is needed first: most layers end without an event
	once     sync.Once
	begins   bool // the window begins with its watchdog

	next, before *Watchdog // of the layers of one run; guarded by their mu
}

// newLineage is that of a run in a session's window.
func newLineage(parentID string) *lineage {
	if parentID == "" {
		return nil
	}
	return &lineage{parentID: parentID}
}

func (l *lineage) parent() string {
	if l == nil {
		return ""
	}
	return l.parentID
}

// fresh is the name of a window that begins with its watchdog, empty for a session's.
func (l *lineage) fresh() string {
	if l == nil || !l.begins {
		return ""
	}
	l.once.Do(func() { l.window = record.NewWindow() })
	return l.window
}

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

// history is what the events say of the run.
func (w *Watchdog) history(events []Event) fold.History {
	if len(events) == 0 {
		return fold.History{}
	}
	all := make([]fold.Event, len(events))
	for i, e := range events {
		all[i] = fold.Event(e)
	}
	return fold.Of(fold.WindowID{Parent: w.lineage.parent(), Fresh: w.lineage.fresh()}, all)
}

// readable returns an error if an event that can be of the window cannot be read.
func readable(h *fold.History, window time.Time) error {
	if e := h.Unreadable(window); e != nil {
		return fmt.Errorf("%w %w", ErrUnreadableEvent, e)
	}
	return nil
}

// known is what the events say of the window, as far as they can be read.
func (w *Watchdog) known(events []Event) fold.Window {
	h := w.history(events)
	return h.At(w.startedAt)
}

// checkedKnown is [Watchdog.known], or an error if an event of the window cannot be read.
func (w *Watchdog) checkedKnown(events []Event) (fold.Window, error) {
	h := w.history(events)
	if err := readable(&h, w.startedAt); err != nil {
		return fold.Window{}, err
	}
	return h.At(w.startedAt), nil
}
