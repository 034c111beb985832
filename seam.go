package watchdog

import (
	"time"

	"github.com/seed62658d38/watchdog/internal/seam"
)

// The window that events tell of, for package story.
func init() { seam.Register(seam.Root{Window: seamWindow}) }

// seamWindow is the window of a run, as its events have it.
func seamWindow(events any, of seam.Lineage, hostStart time.Time) seam.Window {
	h := foldEvents(windowID{of.Parent, of.Window}, events.([]Event))
	h.unreadable = nil // current fails for these, and there is a story to tell all the same
	found, _ := h.current(hostStart)
	w := seam.Window{
		StartedAt: found.startedAt, CompletedAt: found.completedAt, Extended: found.extended, Pauses: found.verdictPauses(),
	}
	if found.stop != nil {
		w.Stop = found.stop
	}
	return w
}
