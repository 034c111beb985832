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

// Fresh is the name of a window that begins with its watchdog, empty for a session's.
func (n *Name) Fresh() string { return n.fresh }

// window is the name of the window that began then, from which the IDs of its events are derived.
func (n *Name) window(startedAt time.Time) string {
	if n.fresh != "" {
		return n.fresh
	}
	return record.Stamp(startedAt).String()
}

// Once are the IDs of the end of the window that began then, and of the resume that opens the next.
func (n *Name) Once(startedAt time.Time) []string {
	window := n.window(startedAt)
	return []string{
		record.EventID(n.Run, window, record.EventCancel, record.Once),
		record.EventID(n.Run, window, record.EventResume, record.Once),
	}
}

// EventID is the ID of the events of one name. An empty name makes one of its own.
func (n *Name) EventID(kind, name string) string {
	return record.EventID(n.Run, n.window(n.StartedAt), kind, name)
}

// SpendID names what a store keeps of the window's spend for a tool.
func (n *Name) SpendID(window, tool string) string {
	return record.EventID(n.Run, window, "spend", record.Once+" "+tool)
}
