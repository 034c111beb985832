package ledger

import (
	"cmp"
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A Shared is what this process holds of a limit that a store keeps: the sessions that share the limit share it. What
// it has taken of the limit's window is drawn on, what was used beyond that is owed, and what is left of a window that
// is over is to be given back. The zero value holds nothing.
type Shared struct {
	current  *Window
	last     *Window // once closed: what is owed is of its window then
	over     []*Window
	ended    int            // how many windows have
	charged  verdict.Counts // what the window is charged with, as of the last answer
	debt     tallies        // what was used while there was no window
	taking   *Take
	doubtful *Slice // one whose answer was lost
	covering bool   // somebody takes what is owed
	closed   bool   // nobody draws on it any more
}

// Timed reports whether it matters what time it is.
func (s *Shared) Timed() bool {
	return s.current != nil && s.current.ends != verdict.Never || s.last != nil && s.last.ends != verdict.Never
}

// Turn leaves a window that is over. What is owed of it after the end is charged nowhere. It comes before everything
// else that is asked at an instant.
func (s *Shared) Turn(now time.Duration) {
	if s.current.isOver(now) {
		s.leave()
	}
	if s.last.isOver(now) {
		s.debt = tallies{}
	}
}

func (s *Shared) leave() {
	s.over = append(s.over, s.current)
	s.current, s.charged = nil, verdict.Counts{}
	s.ended++
}

// Begun reports whether it is known what the window is charged with.
func (s *Shared) Begun() bool { return s.current != nil }

// draw draws a call, and returns on what: nil for what is owed without a window. If there is too little, or the limit
// may be used up, it draws nothing and returns what to ask the store for.
func (s *Shared) draw(need, limit *verdict.Counts, owes, observed bool) (on *Window, least verdict.Counts, short bool) {
	if owes {
		s.charge(need)
		return s.current, least, false
	}
	used, left := s.used(), s.left()
	for kind, n := range need {
		switch {
		case n == 0:
		case n > left[kind]:
			least[kind], short = verdict.AddCount(n, -left[kind]), true
		case !observed && !verdict.Fits(n, limit[kind], used[kind]): // what others hold may have been given back since
			least[kind], short = n, true
		}
	}
	if short {
		return nil, least, true
	}
	s.charge(need)
	return s.current, least, false
}

// charge draws on the window, and where there is none makes it a debt.
func (s *Shared) charge(n *verdict.Counts) {
	if s.current == nil {
		s.debt.add(n)
		return
	}
	s.current.left.sub(n)
}

// left is what can be drawn, negative where something is owed.
func (s *Shared) left() verdict.Counts {
	var left tallies
	if s.current != nil {
		left = s.current.left
	}
	left.subAll(&s.debt)
	return left.counts()
}

// used is what the window is charged with, without what is left here.
func (s *Shared) used() verdict.Counts {
	used, left := s.charged, s.left()
	used.Sub(&left)
	return used
}

// others is what the window is charged with by other processes.
func (s *Shared) others() verdict.Counts {
	others := s.charged
	if s.current != nil {
		others.Sub(&s.current.taken)
	}
	return others
}

// refuses returns the first kind in which a call does not fit, or -1.
func (s *Shared) refuses(need, limit *verdict.Counts) int {
	used := s.used()
	for kind, n := range need {
		if !verdict.Fits(n, limit[kind], used[kind]) {
			return kind
		}
	}
	return -1
}

// replace charges what was used in place of what was drawn. What was given back with the rest stays charged with what
// was drawn. It reports whether more was used than was taken, and whether by this call.
func (s *Shared) replace(from *Window, before, after *verdict.Counts) (owes, more bool) {
	if from == nil {
		from = cmp.Or(s.current, s.last)
	}
	owed := s.Owed()
	switch {
	case from != nil && from.returned:
		s.chargeLate(from, before, after)
	case from == nil:
		s.debt.sub(before)
		s.debt.add(after)
	default:
		from.left.add(before)
		from.left.sub(after)
	}
	for kind, n := range s.Owed() {
		owes, more = owes || n > 0, more || n > owed[kind]
	}
	return owes, more
}

// chargeLate charges what was used beyond what was drawn on a window whose rest was given back, unless it was over
// before the end.
func (s *Shared) chargeLate(from *Window, before, after *verdict.Counts) {
	if from != s.last {
		return
	}
	for kind, n := range after {
		s.debt[kind].Add(max(n-before[kind], 0))
	}
}

// Owed is what was used beyond what was taken.
func (s *Shared) Owed() (owed verdict.Counts) {
	for kind, left := range s.left() {
		owed[kind] = s.countable(kind, max(-left, 0))
	}
	return owed
}

// countable is how much more the window can be charged with: one that is charged with [verdict.Endless] stays so,
// whatever is given back.
func (s *Shared) countable(kind int, n int64) int64 {
	return min(n, max(verdict.Endless-1-s.charged[kind], 0))
}

var endless = func() (all verdict.Counts) {
	for i := range all {
		all[i] = verdict.Endless
	}
	return all
}()

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

func (w *Window) isOver(now time.Duration) bool {
	return w != nil && w.ends != verdict.Never && now >= w.ends
}

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
