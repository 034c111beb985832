// Package verdict decides what to do about a run: one pure function of its limits, of what is known of it, and of the
// time. It holds every timing rule of the module; the guards feed it and carry out what it says.
//
// All instants are durations on the run's own scale: what has elapsed since its window began, in real time and never
// running back. A [Meter] makes such a scale from a clock that may be set.
//
// The package has no clock, no I/O and no goroutine, and knows no texts or events.
package verdict

import (
	"math"
	"time"
)

// Never is an instant that does not come: the next look of a run without limits, and the length of a limit that is off.
const Never time.Duration = math.MaxInt64

// A Limit is one of the limits that a run can exceed. Its name is the stem of reasons and codes.
type Limit string

// The limits.
const (
	WallClock  Limit = "wall_clock"  // since the window's start, across restarts
	Safety     Limit = "safety"      // since the attach; nothing resets or suspends it
	Hold       Limit = "hold"        // since the hold was opened
	NoProgress Limit = "no_progress" // since the last progress, however much activity
	Idle       Limit = "idle"        // since the last activity
)

// Limits are what a run may use. A length of [Never] switches one off; none is negative.
type Limits struct {
	WallClock time.Duration
	// WarnAt holds fractions of the wall-clock limit, ascending.
	WarnAt     []float64
	Safety     time.Duration
	Idle       time.Duration
	NoProgress time.Duration
	// FromFirstSign has Idle and NoProgress begin at the first signal instead of the attach; until it comes, FirstSign limits the wait for it.
	FromFirstSign bool
	FirstSign     time.Duration
	// Ladders say what the trips of a limit ask for; nil is a Cancel at once for all.
	Ladders *Ladders
}

// An Action is what a [Verdict] asks for.
type Action int

// The actions. After every action but Continue and Cancel the caller applies the verdict to its Snapshot and asks again.
const (
	Continue Action = iota
	Warn            // a fraction of the wall clock was reached
	Direct          // a limit was exceeded, and its ladder asks for something less than a cancel
	Cancel          // a limit was exceeded, and that ends the run
)

// A Verdict says what to do now, and when to look again.
type Verdict struct {
	Action Action
	// Limit, Used and Allowed tell the limit that anything but Continue is about, how much of it is used and how much there is.
	Limit         Limit
	Used, Allowed time.Duration
	// Fraction is the element of Limits.WarnAt that was reached.
	Fraction float64
	// Directive is what a Direct or a Cancel asks for, Attempt which trip of its ladder it is, from 1.
	Directive Directive
	Rung      int
	// Hold is the key of the hold whose cap was exceeded.
	Hold string
	// Next is the first instant at which the answer can change by itself: [Never] after a Cancel, or where nothing is limited.
	Next time.Duration
}

// Judge says what to do about a run at the instant now. A limit is exceeded when more than it was used; a warning is
// due when its fraction is reached. Of several exceeded limits the one that was exceeded first is named, and of those
// that were at the same instant the one that stands first in the list of limits.
func Judge(limits Limits, seen Snapshot, now time.Duration) Verdict {
	first := earliest(limits, seen)
	if now >= first.exceededAt() {
		return first.exceeded(limits, now)
	}
	wall := wallClock(limits, seen)
	fraction, at := nextWarning(limits, seen, wall)
	if now >= at {
		return Verdict{Action: Warn, Limit: WallClock, Used: now, Allowed: wall.allowed, Fraction: fraction, Next: now}
	}
	return Verdict{Next: min(first.exceededAt(), at)}
}

// Remaining is how much of the wall clock is left at the instant now, at least 0, and [Never] where it is not limited.
func Remaining(limits Limits, seen Snapshot, now time.Duration) time.Duration {
	wall := wallClock(limits, seen)
	if wall.allowed == Never {
		return Never
	}
	return max(wall.allowed-now, 0)
}

// nextWarning returns the next fraction of the wall clock to warn at, and when.
func nextWarning(limits Limits, seen Snapshot, wall stretch) (fraction float64, at time.Duration) {
	if wall.allowed == Never || seen.Warned >= len(limits.WarnAt) {
		return 0, Never
	}
	fraction = limits.WarnAt[seen.Warned]
	return fraction, time.Duration(fraction * float64(wall.allowed))
}

// Sum adds two lengths; what is or becomes too long is [Never].
func Sum(a, b time.Duration) time.Duration {
	if a > Never-b {
		return Never
	}
	return a + b
}

// Until is how long it is from now until at; until [Never] it is Never.
func Until(at, now time.Duration) time.Duration {
	if at == Never {
		return Never
	}
	return at - now
}
