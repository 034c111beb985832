package ledger

import (
	"time"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/verdict"
)

// A Window is the slices that were taken of one window of a shared limit. They are drawn on together.
type Window struct {
	name     string
	slices   []held         // the last ones
	taken    verdict.Counts // what all of them were granted
	left     tallies        // negative where more was used than was taken
	ends     time.Duration  // [verdict.Never] for one that counts for ever
	returned bool           // what was left is given back
}

type held struct {
	id      string
	granted verdict.Counts
}

// maxSlices is how many slices of a window can be given back. A new one is taken when the others are used up.
const maxSlices = 1024

// isOver reports whether there is a window, and it is over.
func (w *Window) isOver(now time.Duration) bool {
	return w != nil && w.ends != verdict.Never && now >= w.ends
}

// add adds a slice.
func (w *Window) add(id string, granted *verdict.Counts) {
	if len(w.slices) == maxSlices {
		w.slices = append(w.slices[:0], w.slices[1:]...)
	}
	w.slices = append(w.slices, held{id, *granted})
	w.taken.Add(granted)
	w.left.add(granted)
}

// A Return is what is to be given back of a slice.
type Return struct {
	ID     string
	Unused verdict.Counts
}

// returns is what is left of the slices.
func (w *Window) returns() (all []Return) {
	left := w.left.counts()
	for _, s := range w.slices {
		unused := s.granted
		for kind := range unused {
			unused[kind] = max(min(unused[kind], left[kind]), 0)
			left[kind] -= unused[kind]
		}
		if unused != (verdict.Counts{}) {
			all = append(all, Return{s.id, unused})
		}
	}
	return all
}

// Tallies are one sum for each kind.
type tallies [len(verdict.Counts{})]verdict.Tally

func (t *tallies) add(n *verdict.Counts) {
	for kind := range t {
		t[kind].Add(n[kind])
	}
}

func (t *tallies) sub(n *verdict.Counts) {
	for kind := range t {
		t[kind].Sub(n[kind])
	}
}

func (t *tallies) counts() (all verdict.Counts) {
	for kind := range t {
		all[kind] = t[kind].Count()
	}
	return all
}

func (t *tallies) subAll(other *tallies) {
	for kind := range t {
		t[kind].SubAll(other[kind])
	}
}
