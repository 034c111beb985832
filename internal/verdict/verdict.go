// Package verdict decides what to do about a run: one pure function of its limits, of what is known of it, and of the
// time. It holds every timing rule of the module; the guards feed it and carry out what it says.
//
// All instants are durations on the run's own scale: what has elapsed since its window began, in real time and never
// running back. A [Meter] makes such a scale from a clock that may be set.
//
// The package has no clock, no I/O and no goroutine, and knows no names, texts or events.
package verdict

import (
	"math"
	"time"
)

// Never is an instant that does not come: the next look of a run without limits, and the length of a limit that is off.
const Never time.Duration = math.MaxInt64

// A Limit is one of the limits that a run can exceed.
type Limit string

// WallClock limits the time since the window's start, across restarts. Its name, as all names of limits, is the stem of reasons and codes.
const WallClock Limit = "wall_clock"

// Limits are what a run may use. A length of [Never] switches one off; none is negative.
type Limits struct {
	WallClock time.Duration
	// WarnAt holds fractions of the wall-clock limit, ascending.
	WarnAt []float64
}

// A Snapshot is what is known of a run at one look.
type Snapshot struct {
	// Extended is how much time the window was given beyond Limits.WallClock.
	Extended time.Duration
	// Warned is how many of Limits.WarnAt were given for the wall-clock limit as it is now.
	Warned int
}

// An Action is what a [Verdict] asks for.
type Action int

// The actions. After Warn the caller counts it in Snapshot.Warned and asks again.
const (
	Continue Action = iota
	Warn
	Cancel
)

// A Verdict says what to do now, and when to look again.
type Verdict struct {
	Action Action
	// Limit, Used and Allowed tell the limit that a Cancel or a Warn is about, how much of it is used and how much there is.
	Limit         Limit
	Used, Allowed time.Duration
	// Fraction is the element of Limits.WarnAt that was reached.
	Fraction float64
	// Next is the first instant at which the answer can change by itself: [Never] after a Cancel, or where nothing is limited.
	Next time.Duration
}

// Judge says what to do about a run at the instant now. A limit is exceeded when more than it was used; a warning is
// due when its fraction is reached. Of several exceeded limits the one that was exceeded first is named.
func Judge(limits Limits, seen Snapshot, now time.Duration) Verdict {
	first := earliest(stretches(limits, seen))
	if now >= first.exceededAt() {
		return first.verdict(Cancel, now, Never)
	}
	wall := wallClock(limits, seen)
	fraction, at := nextWarning(limits, seen, wall)
	if now >= at {
		v := wall.verdict(Warn, now, now)
		v.Fraction = fraction
		return v
	}
	return Verdict{Next: min(first.exceededAt(), at)}
}

// A stretch is what one limit measures: it began at from and may last as long as allowed.
type stretch struct {
	limit         Limit
	from, allowed time.Duration
}

func stretches(limits Limits, seen Snapshot) [1]stretch {
	return [...]stretch{wallClock(limits, seen)}
}

func wallClock(limits Limits, seen Snapshot) stretch {
	return stretch{WallClock, 0, Sum(limits.WallClock, seen.Extended)}
}

// earliest returns the stretch that is exceeded first in time.
func earliest(all [1]stretch) stretch {
	first := all[0]
	for _, s := range all[1:] {
		if s.exceededAt() < first.exceededAt() {
			first = s
		}
	}
	return first
}

// exceededAt is the first instant at which more than what is allowed was used.
func (s stretch) exceededAt() time.Duration { return Sum(s.from, Sum(s.allowed, 1)) }

func (s stretch) verdict(do Action, now, next time.Duration) Verdict {
	return Verdict{Action: do, Limit: s.limit, Used: now - s.from, Allowed: s.allowed, Next: next}
}

// nextWarning returns the next fraction of the wall clock to warn at, and when.
func nextWarning(limits Limits, seen Snapshot, wall stretch) (fraction float64, at time.Duration) {
	if wall.allowed == Never || seen.Warned >= len(limits.WarnAt) {
		return 0, Never
	}
	fraction = limits.WarnAt[seen.Warned]
	return fraction, time.Duration(fraction * float64(wall.allowed))
}

// Sum adds two lengths; what is or becomes too long is Never.
func Sum(a, b time.Duration) time.Duration {
	if a > Never-b {
		return Never
	}
	return a + b
}

// Remaining is how much of the wall clock is left at the instant now, at least 0, and [Never] where it is not limited.
func Remaining(limits Limits, seen Snapshot, now time.Duration) time.Duration {
	wall := wallClock(limits, seen)
	if wall.allowed == Never {
		return Never
	}
	return max(wall.allowed-now, 0)
}

// Until is how long it is from now until at; until [Never] it is Never.
func Until(at, now time.Duration) time.Duration {
	if at == Never {
		return Never
	}
	return at - now
}
