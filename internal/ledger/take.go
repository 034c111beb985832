package ledger

import (
	"cmp"
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A Slice is a part of a shared limit that is charged at once and then drawn on.
type Slice struct {
	ID string
	// Least is what has to fit, Limit what may be used in a window. Force charges Least whether it fits or not.
	Least, Limit verdict.Counts
	Force        bool
}

// A Grant is what the store answers. Ends is how long the window goes on: not at all if it is over, [verdict.Never] for
// one that counts for ever.
type Grant struct {
	Fits             bool
	Granted, Charged verdict.Counts
	Window           string
	Ends             time.Duration
}

// A Take is a slice that is being taken, again if the answer was lost before.
type Take struct {
	Slice
	Again bool
	began time.Duration
}

// Begin makes the slice with the ID the one that is being taken, or one of what is owed if none is wanted, or one whose
// answer was lost before. It reports false if another one is being taken, which the caller has to wait for, and returns
// nil if there is nothing to take. What is owed is read here, so that it is taken once, however many ask for it. The
// answer is for Granted or NotGranted.
func (s *Shared) Begin(now time.Duration, id string, want *Slice) (t *Take, begun bool) {
	owed := s.Owed()
	switch {
	case want == nil && owed == verdict.Counts{} && s.doubtful == nil:
		return nil, false
	case s.taking != nil:
		return s.taking, false
	case s.doubtful != nil:
		s.taking = &Take{*s.doubtful, true, now}
	case want != nil:
		s.taking = &Take{*want, false, now}
	default:
		s.taking = &Take{Slice{Least: owed, Limit: endless, Force: true}, false, now}
	}
	s.taking.ID = cmp.Or(s.taking.ID, id)
	return s.taking, true
}

// NotGranted notes that the store failed to answer. If it may have charged the slice, that is asked for again.
func (s *Shared) NotGranted(mayBeCharged bool) {
	s.doubtful = nil
	if mayBeCharged {
		s.doubtful = &s.taking.Slice
	}
	s.taking = nil
}

// Granted adds the slice, or notes that it does not fit. One of a window that is over is to be given back.
func (s *Shared) Granted(g *Grant) {
	t := s.taking
	s.taking, s.doubtful = nil, nil
	w := &Window{name: g.Window, ends: verdict.Sum(t.began, g.Ends)}
	if g.Ends == 0 || s.last != nil && s.last.name != w.name {
		w.add(t.ID, &g.Granted)
		s.over = append(s.over, w)
		s.passed(g)
		return
	}
	if s.current != nil && s.current.name != w.name {
		s.leave()
	}
	if s.charged = g.Charged; s.current == nil {
		s.current = w
	}
	if g.Fits {
		s.current.add(t.ID, &g.Granted)
		s.current.left.subAll(&s.debt)
		s.debt = tallies{}
	}
	if s.closed {
		s.close()
	}
}

// passed forgets what is owed after the end if the store's clock says that its window is over.
func (s *Shared) passed(g *Grant) {
	if s.last != nil && (g.Ends == 0) == (g.Window == s.last.name) {
		s.debt = tallies{}
	}
}

// BeginCover reports whether something is owed that nobody takes. Then the caller takes it, until EndCover.
func (s *Shared) BeginCover() bool {
	if s.covering || s.closed || s.Owed() == (verdict.Counts{}) {
		return false
	}
	s.covering = true
	return true
}

// EndCover ends what BeginCover began.
func (s *Shared) EndCover() { s.covering = false }

// Close leaves the window for good, and keeps what is owed of it: what the store grants from now on is given back. It
// returns the slice of which the store has not said whether it was charged, unless that will be asked for again.
func (s *Shared) Close() (doubtful *Slice) {
	s.close()
	if s.Owed() == (verdict.Counts{}) {
		return s.doubtful
	}
	return nil
}

func (s *Shared) close() {
	s.closed = true
	if s.current == nil {
		return
	}
	owed := s.Owed()
	s.last, s.debt = cmp.Or(s.last, s.current), tallies{}
	s.debt.add(&owed)
	s.leave()
}

// Closed reports whether nobody draws on it any more.
func (s *Shared) Closed() bool { return s.closed }

// Returns is what is to be given back of the windows that are over, once. What is used of them from now on is not in
// it.
func (s *Shared) Returns() (all []Return) {
	for _, w := range s.over {
		w.returned = true
		all = append(all, w.returns()...)
	}
	s.over = nil
	return all
}
