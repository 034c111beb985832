// Package seam is how package story reaches the root's fold of a run's events. The root registers itself here when it
// is initialized, so that it exports none of this.
package seam

import (
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A Root is what the root registers.
type Root struct {
	// Window returns what events, a []Event of the root's, say of a run: see [WindowOf].
	Window func(events any, of Lineage, hostStart time.Time) Window
}

// A Lineage tells the windows of one run from others of its aggregate: by its parent, and by the name of a window that
// a layer or a command has for itself.
type Lineage struct{ Parent, Window string }

// A Window is what events say of the window that a run is in.
type Window struct {
	// StartedAt is its start, CompletedAt when the run was complete, or zero. A run that has a stop as well is one whose
	// stop was wrong.
	StartedAt, CompletedAt time.Time
	// Stop is a *Stop of the root's, or nil.
	Stop any
	// Extended is how much time it was given, Pauses are the holds that stopped its wall clock.
	Extended time.Duration
	Pauses   []verdict.Pause
}

// root is written once, before main.
var root Root

// Register is called by an init function of the root.
func Register(r Root) { root = r }

// WindowOf returns what events, a []Event of the root's, say of the window that a run is in, whose host says that it
// began at hostStart; zero if no host does. Events that cannot be read say nothing.
func WindowOf(events any, of Lineage, hostStart time.Time) Window {
	return root.Window(events, of, hostStart)
}
