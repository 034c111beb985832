package machine

import (
	"time"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/pending"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
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

// NewEntry is what waits of events that are there. A nil loss tells the log nothing.
func NewEntry(lost *Loss, events ...Event) *Entry { return &Entry{lost: lost, events: events} }

// laterEntry is what waits of one event that is made when it is needed first.
func laterEntry(kind string, event func() Event) *Entry {
	return &Entry{
		lost: &Loss{"an event", []any{"event", kind}}, make: func() []Event { return []Event{event()} },
	}
}

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

// A Notice is a warning or a directive, as it was decided.
type Notice struct {
	Verdict   verdict.Verdict
	Reason    string        // of a directive
	Remaining time.Duration // of a warning about the wall clock
	Note      string
	At        time.Time
	Spend     *record.Spend // of a counted limit

	ids      [2]string // of the events of a directive, in the order in which those of one moment are read
	replaces []string  // the directives that it takes the place of
}

// Directive reports whether it asks the host for something, rather than warning it.
func (o *Notice) Directive() bool { return o.Verdict.Action != verdict.Warn }

// Observed tells a cancel that is recorded and not carried out.
func (o *Notice) Observed() bool { return o.Verdict.Action == verdict.Cancel }

// begins reports whether work is begun again at it.
func (o *Notice) begins() bool {
	return o.Verdict.Directive == verdict.DirectRetry || o.Verdict.Directive == verdict.DirectUnstick
}

// onLadder reports whether it is a rung of a ladder, which stands until there is progress.
func (o *Notice) onLadder() bool {
	return o.Verdict.Directive != verdict.DirectWrapUp && o.Verdict.Directive != verdict.DirectCancel
}
