package fold

import (
	"cmp"

	"github.com/seed62658d38/watchdog/internal/ordered"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A Pause is a hold that stopped the wall clock, as the events tell of it.
type Pause struct {
	verdict.Pause
	Hold, Layer string // its key, and the layer whose it is, if it is one's
}

// A pause is what is known of one: its end may have been read, and not its opening.
type pause struct {
	Pause
	opened bool
}

// setPause notes what is known of the one whose opening has the ID.
func (w *Window) setPause(id string, p pause) {
	if w.pauses == nil {
		w.pauses = map[string]pause{}
	}
	p.ID = id
	w.pauses[id] = p
}

// Pauses are those whose opening is known, in the order of their opening.
func (w *Window) Pauses() []Pause {
	var all []Pause
	for _, p := range w.pauses {
		if p.opened {
			all = append(all, p.Pause)
		}
	}
	ordered.Sort(all, func(a, b Pause) int {
		return cmp.Or(cmp.Compare(a.Opened, b.Opened), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// Paused are the pauses as the decision takes them.
func (w *Window) Paused() []verdict.Pause {
	var all []verdict.Pause
	for _, p := range w.Pauses() {
		all = append(all, p.Pause)
	}
	return all
}
