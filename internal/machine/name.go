package machine

import (
	"time"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/record"
)

// A Name tells a run and its window from all others. StartedAt is the window's start.
type Name struct {
	Run, Parent string
	StartedAt   time.Time
	// Begins says that the window begins with its watchdog and is told apart by a name, which is drawn when it is needed
	// first: most layers end without an event.
	Begins bool
	fresh  string
}

// Draw draws the name of a fresh window. The name does not change then, and can be read without the tree.
func (n *Name) Draw() {
	if n.Begins && n.fresh == "" {
		n.fresh = record.NewWindow()
	}
}

// Window is what tells the windows of the run's events apart.
func (n *Name) Window() fold.WindowID { return fold.WindowID{Parent: n.Parent, Fresh: n.fresh} }

// windowName is the name of a window, from which the IDs of its events are derived: one that was drawn, or its start.
func windowName(fresh string, startedAt time.Time) string {
	if fresh != "" {
		return fresh
	}
	return record.Stamp(startedAt).String()
}

// Once are the IDs of the end of the window that began then, and of the resume that opens the next.
func (n *Name) Once(startedAt time.Time) []string {
	window := windowName(n.fresh, startedAt)
	return []string{
		record.EventID(n.Run, window, record.EventCancel, record.Once),
		record.EventID(n.Run, window, record.EventResume, record.Once),
	}
}

// SpendID names what a store keeps of the window's spend for a tool.
func (n *Name) SpendID(window, tool string) string {
	return record.EventID(n.Run, window, "spend", record.Once+" "+tool)
}

// Event returns the event of one kind about the run. Events of the same name, window and run have the same ID,
// whichever process makes them; an empty name makes an event of its own.
func (n *Name) Event(kind string, at time.Time, name string, payload any) Event {
	return Event{
		ID: record.EventID(n.Run, windowName(n.fresh, n.StartedAt), kind, name), AggregateType: record.AggregateType,
		AggregateID: n.Run, Type: kind, Payload: record.JSON(payload), Timestamp: record.Truncate(at),
	}
}
