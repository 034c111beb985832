package machine

import (
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/pending"
	"github.com/seed62658d38/watchdog/internal/record"
)

// An Event is what is recorded.
type Event = fold.Event

// An Entry is what a run has to store of one decision, all of it or nothing: a directive, a warning, a pause. It waits
// from the decision on until the store has it. The host is told of its Notice once that was tried.
type Entry struct {
	pending.State
	Notice *Notice        // nil if the host is told of nothing
	make   func() []Event // makes the events when they are needed first; nil if they are there
	events []Event
	lost   *Loss
}

// A Loss is what the log is told if the first try at an entry fails, with these attributes.
type Loss struct {
	What string
	Args []any
}

func lostEvent(kind string) *Loss { return &Loss{"an event", []any{"event", kind}} }

// NewEntry is what waits of events that are there. A nil loss tells the log nothing.
func NewEntry(lost *Loss, events ...Event) *Entry { return &Entry{lost: lost, events: events} }

// Events returns the events of the entry.
func (e *Entry) Events() []Event {
	if e.make != nil {
		e.events, e.make = e.make(), nil
	}
	return e.events
}

// Lost is what the log is told if the first try fails, nil for nothing.
func (e *Entry) Lost() *Loss {
	o := e.Notice
	switch {
	case o == nil:
		return e.lost
	case !o.Directive():
		return &Loss{"a warning", []any{"fraction", o.Verdict.Fraction}}
	}
	return &Loss{"a directive", []any{"directive", string(o.Verdict.Directive), "reason", record.Code(o.Reason)}}
}
