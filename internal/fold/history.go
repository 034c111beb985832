// Package fold says what the events of a run come to: which window the run is in, what ended it or gave it more time,
// what was asked of the host in it, and how long its wall clock stood still. A process that attaches to a run, a trip
// that asks the store before it ends one, and whoever tells the story of a run all read the events here.
//
// [Of] folds events into a [History], which has a [Window] for each stretch of time that an event tells of. What is
// known of a window does not depend on the order in which its events are given, because the clocks of the hosts that
// wrote them need not agree.
//
// The package has no clock, no store and no goroutine, knows no stop codes, and decides nothing about a running run.
package fold

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/ordered"
	"github.com/seed62658d38/watchdog/internal/record"
)

// A WindowID tells the windows of an aggregate apart. Run IDs may hold slashes, so that one aggregate can be that of a
// run and of another's layer: the parent tells them apart.
type WindowID struct {
	Parent string
	// Fresh is the random name of a window that begins whenever it is asked for, empty for a session's, which is named by
	// its start.
	Fresh string
}

// A History is what the events of a run say. The zero History is that of a run without events.
type History struct {
	id         WindowID
	windows    map[time.Time]*Window
	after      map[time.Time]time.Time // from each window to the one that a resume opened after it
	cancels    map[string]time.Time    // the windows of the cancel events, by their IDs
	corrected  []string                // the IDs of cancel events that were wrong
	unreadable []*UnreadableError
	began      time.Time // as the store keeps it, zero if it does not
}

// Of folds events. Where two of them say different things of one window, such as two cancels, it counts which of them a
// store returns first. The events stay as they are.
func Of(id WindowID, events []event.Event) History {
	h := History{id: id, windows: map[time.Time]*Window{}, after: map[time.Time]time.Time{}}
	h.fold(events)
	return h
}

// fold folds further events, which a store returns after those that are folded.
func (h *History) fold(events []event.Event) {
	events = inOrder(events)
	for i := range events {
		h.add(&events[i])
	}
	for _, cancel := range h.corrected {
		if start, known := h.cancels[cancel]; known {
			h.windows[start].correct()
		}
	}
}

// inOrder returns the events as a store returns them.
func inOrder(events []event.Event) []event.Event {
	if !slices.IsSortedFunc(events, event.Event.Compare) {
		events = slices.Clone(events)
		ordered.Sort(events, event.Event.Compare)
	}
	return events
}

// add adds what an event says, unless it is of another run's.
func (h *History) add(e *event.Event) {
	if e.Type == event.Start {
		h.addStart(e)
		return
	}
	p := payloadOf(e.Type)
	if p == nil {
		return
	}
	err := json.Unmarshal(e.Payload, p)
	of := p.of()
	if err != nil { // of which window it is may be readable
		of = record.Window{}
		_ = json.Unmarshal(e.Payload, &of)
	}
	start := time.Time(of.SessionStartedAt)
	switch {
	case (err == nil || !start.IsZero()) && h.id != WindowID{of.Parent, of.Window}:
		return
	case err == nil && start.IsZero():
		err = errNoStart
	}
	if err != nil {
		h.unreadable = append(h.unreadable, &UnreadableError{*e, start, err})
		return
	}
	p.applyTo(h, h.window(start), e)
}

// addStart notes a start that can be read: it tells of no window.
func (h *History) addStart(e *event.Event) {
	var p record.Start
	if json.Unmarshal(e.Payload, &p) == nil && p.Parent == h.id.Parent {
		h.began = time.Time(p.SessionStartedAt)
	}
}

func (h *History) window(startedAt time.Time) *Window {
	w := h.windows[startedAt]
	if w == nil {
		w = &Window{StartedAt: startedAt}
		h.windows[startedAt] = w
	}
	return w
}

// Current returns the window that the run is in, of which the host says that it began at hostStart; zero if no host
// does.
func (h *History) Current(hostStart time.Time) Window {
	last := h.Last()
	switch {
	case last == nil && !h.began.IsZero() && hostStart.Sub(h.began) >= sameStart:
		return Window{StartedAt: hostStart, Before: &Window{StartedAt: h.began}}
	case last == nil:
		return Window{StartedAt: hostStart}
	case !h.knows(hostStart) && last.endedBefore(hostStart):
		last = &Window{StartedAt: hostStart, Before: last}
	}
	found := *last
	found.starts = ordered.Keys(h.windows, time.Time.Compare)
	return found
}

// At returns what is known of the window that began then.
func (h *History) At(start time.Time) Window {
	if h.windows[start] == nil {
		return Window{StartedAt: start}
	}
	return *h.windows[start]
}

// Next returns the start of the window that a resume opened after the one that began then.
func (h *History) Next(start time.Time) (next time.Time, resumed bool) {
	next, resumed = h.after[start]
	return next, resumed
}

// Unreadable returns the first unreadable event that can be of the window which began then, or of one after it; nil if
// there is none.
func (h *History) Unreadable(start time.Time) *UnreadableError {
	for _, e := range h.unreadable {
		if h.concerns(e, start) {
			return e
		}
	}
	return nil
}

func (h *History) concerns(e *UnreadableError, start time.Time) bool {
	switch {
	case e.StartedAt.Equal(start):
		return true
	case e.StartedAt.IsZero():
		return !e.Event.Timestamp.Before(start)
	}
	return h.windows[e.StartedAt] == nil && e.StartedAt.After(start)
}

// knows reports whether a window that began then is known. A host that passes its start has not persisted a later one:
// it did not open another.
func (h *History) knows(start time.Time) bool {
	_, resumed := h.after[start]
	return resumed || h.windows[start] != nil
}

// Last returns the end of the latest chain of windows, nil if there is none. What orders the windows of a chain is that
// each was opened after the one before, not when: the clock of who opened it may have been behind. Chains begin where a
// host gave a run another start.
func (h *History) Last() *Window {
	inside := map[time.Time]bool{} // those that a resume opened after one that is known
	for before, start := range h.after {
		inside[start] = inside[start] || h.windows[before] != nil
	}
	last := latest(h.windows, func(start time.Time) bool { return !inside[start] })
	if last == nil { // a damaged chain is a circle
		return latest(h.windows, func(time.Time) bool { return true })
	}
	for range h.windows {
		if next := h.windows[h.after[last.StartedAt]]; next != nil {
			last = next
		}
	}
	return last
}

// latest is the window with the latest start of those that are asked for, nil if there is none.
func latest(windows map[time.Time]*Window, wanted func(start time.Time) bool) *Window {
	var found *Window
	for start, w := range windows {
		if wanted(start) && (found == nil || start.After(found.StartedAt)) {
			found = w
		}
	}
	return found
}

// StopsInRow counts the windows that a guard stopped, from the one that began then back to one that was complete or had
// another end.
func (h *History) StopsInRow(last time.Time) (n int) {
	before := map[time.Time]time.Time{}
	for earlier, later := range h.after {
		if earlier.After(before[later]) {
			before[later] = earlier
		}
	}
	for range len(h.windows) {
		w := h.windows[last]
		if w == nil || w.Stop == nil || w.Complete() {
			break
		}
		n++
		earlier, resumed := before[last]
		if !resumed {
			break
		}
		last = earlier
	}
	return n
}

// An UnreadableError names an event whose payload cannot be understood, and says why. It may be of the window that
// counts.
type UnreadableError struct {
	Event     event.Event
	StartedAt time.Time // of its window; zero if that cannot be read either
	Err       error
}

// Error names the event and its run.
func (e *UnreadableError) Error() string {
	return fmt.Sprintf("%s (%s) of run %s: %v", e.Event.ID, e.Event.Type, e.Event.AggregateID, e.Err)
}

// Unwrap returns why it cannot be understood.
func (e *UnreadableError) Unwrap() error { return e.Err }

var errNoStart = errors.New("it has no session_started_at")
