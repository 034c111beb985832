package verdict

import "time"

// A Grace is what a silence is given when its timer rings late. Then the guard itself did not run: it was stopped,
// frozen, starved, or suspended with its machine, and what it would have heard may wait to be taken. So nothing trips
// for a while; a sign in it begins the silence again as ever. The zero value is that of a timer that never rang late.
type Grace struct {
	last  time.Duration // the sign or the trip that the silence began with
	until time.Duration
	given int // without a sign in between
}

// MaxGraces is how many late rings in a row, without a sign in between, give a grace. After that the silence trips as
// it is.
const MaxGraces = 3

// How late is late, and how long a grace lasts: a part of the limit, within bounds.
const (
	partOfLimit   = 4
	shortestGrace = 50 * time.Millisecond
	longestGrace  = 5 * time.Second
)

func graceOf(limit time.Duration) time.Duration {
	return min(max(limit/partOfLimit, shortestGrace), longestGrace)
}

// Rang notes a ring of the timer, which was set for one instant and rang at another, in a silence that began with the
// last sign and may last as long as the limit. A ring in a grace is of the same pause, and one whose grace would end
// before the limit does gives none.
func (g *Grace) Rang(setFor, at, limit, last time.Duration) {
	if g.last != last {
		*g = Grace{last: last}
	}
	length := graceOf(limit)
	end := at + length
	if at-setFor > length && at >= g.until && g.given < MaxGraces && end > Sum(last, limit) {
		g.until, g.given = end, g.given+1
	}
}

// Expires returns the first instant at which a silence that began with the last sign trips, where that is an instant of
// the limit's if no ring was late.
func (g *Grace) Expires(last, instant time.Duration) time.Duration {
	if g == nil || g.last != last {
		return instant
	}
	return max(instant, g.until)
}

// Graces are those of the limits of silence of one run.
type Graces struct{ idle, noProgress Grace }

// of returns the grace of a limit, nil where nothing was late.
func (g *Graces) of(limit Limit) *Grace {
	switch {
	case g == nil:
		return nil
	case limit == Idle:
		return &g.idle
	}
	return &g.noProgress
}

// Rang notes that the timer by which the run is looked at was set for one instant and rang at another. A poll that
// finds a limit exceeded before the timer has rung is that ring. The wall clock, the safety limit and the caps of holds
// have no grace.
func (s *Snapshot) Rang(limits *Limits, setFor, at time.Duration) {
	if s.Signs == nil || at-setFor <= shortestGrace {
		return
	}
	if s.Signs.Graces == nil {
		s.Signs.Graces = &Graces{}
	}
	for _, t := range [...]timer{silence(limits, s), noProgress(limits, s)} {
		t.grace.Rang(setFor, at, t.allowed, t.from)
	}
}
