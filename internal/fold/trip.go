package fold

import (
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A Trip is a limit that a process found exceeded, with what it knew of the window then.
type Trip struct {
	On       Key           // zero if another guard decided
	Extended time.Duration // what the wall clock was given
	Given    int64         // what the counted limit was given
	Elapsed  time.Duration // of the window
	Paused   time.Duration // of that
	Pauses   *verdict.Pauses
	LeftOpen string // the pause of a hold that another process left open and whose cap was exceeded
}

// TakesBack reports whether more is known of the window than the trip knew. An extension and another process's pause
// take back what they give more of, the wall clock's end, and nothing else; that a hold was closed by its own process
// takes back its cap.
func (w *Window) TakesBack(t *Trip) bool {
	switch {
	case w.Over():
		return true
	case t.On.Limit == string(verdict.WallClock):
		return w.Extended > t.Extended || t.Pauses.With(t.Pauses.News(w.Paused())).Before(t.Elapsed) > t.Paused
	case t.LeftOpen != "":
		return slices.ContainsFunc(w.Paused(), func(p verdict.Pause) bool { return p.Closed && p.ID == t.LeftOpen })
	}
	return w.Given[t.On] > t.Given
}
