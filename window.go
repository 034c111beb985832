package watchdog

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/fold"
)

// history is what the events say of the run.
func (r *run) history(events []Event) fold.History {
	if len(events) == 0 {
		return fold.History{}
	}
	return fold.Of(r.node.Window(), toFold(events))
}

// historyFrom is what the events say besides the base, and those which are known without having been selected from it.
func (r *run) historyFrom(base *fold.Base, events []Event, besides ...Event) fold.History {
	if base == nil {
		return r.history(slices.Concat(events, besides))
	}
	return base.Of(toFold(events), toFold(besides)...)
}

func toFold(events []Event) []fold.Event {
	all := make([]fold.Event, len(events))
	for i, e := range events {
		all[i] = fold.Event(e)
	}
	return all
}

// readable returns an error if an event that can be of the window cannot be read.
func readable(h *fold.History, window time.Time) error {
	if e := h.Unreadable(window); e != nil {
		return fmt.Errorf("%w %w", ErrUnreadableEvent, e)
	}
	return nil
}

// known is what the events say of the window, as far as they can be read.
func (r *run) known(events []Event) fold.Window { return r.knownFrom(nil, events) }

// knownFrom is what the events say of it besides the base.
func (r *run) knownFrom(base *fold.Base, events []Event, besides ...Event) fold.Window {
	h := r.historyFrom(base, events, besides...)
	return h.At(r.node.StartedAt)
}

// checkedKnown is [run.knownFrom], or an error if an event of the window cannot be read.
func (r *run) checkedKnown(base *fold.Base, events []Event) (fold.Window, error) {
	h := r.historyFrom(base, events)
	if err := readable(&h, r.node.StartedAt); err != nil {
		return fold.Window{}, err
	}
	return h.At(r.node.StartedAt), nil
}
