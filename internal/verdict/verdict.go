// Package verdict decides what to do about a run. The decision is one pure function of the run's limits, of what is
// known about the run, and of the time. The package holds every timing rule of the module; the guards call it and carry
// out its verdicts.
//
// All instants are durations since the run's window began, in real time; they never run back. A [MonotonicClock] makes
// such instants from a clock that can be set.
//
// The package has no clock, no I/O and no goroutine, and knows no texts or events.
package verdict

import (
	"math"
	"time"
)

// Never is an instant that does not come: the next look of a run without limits, or the length of a limit that is off.
const Never time.Duration = math.MaxInt64

// A Limit is one of the limits that a run can exceed. Reasons and stop codes begin with its name.
type Limit string

// The limits.
const (
	WallClock  Limit = "wall_clock"  // since the window's start, across restarts
	Safety     Limit = "safety"      // since the attach; nothing resets or suspends it
	Hold       Limit = "hold"        // since the hold was opened
	NoProgress Limit = "no_progress" // since the last progress, however much activity
	Idle       Limit = "idle"        // since the last activity; while holds are open, the limit is theirs
)

// Limits are what a run may use. [Never] switches a limit off. No limit is negative.
type Limits struct {
	WallClock time.Duration
	// WarnAt holds fractions of the wall-clock limit, ascending.
	WarnAt []float64
	// Reserve is the part of the wall clock at which the host is asked to wrap up. Zero asks for nothing.
	Reserve    time.Duration
	Safety     time.Duration
	Idle       time.Duration
	NoProgress time.Duration
	// FromFirstSign makes Idle and NoProgress start at the first signal instead of the attach. FirstSign limits the wait
	// for that signal.
	FromFirstSign bool
	FirstSign     time.Duration
	// Ladders say what the trips of a limit ask for. Nil cancels at the first trip of any limit.
	Ladders Ladders
	// Counts are the counted limits, nil for none.
	Counts []CountLimit
}

// Off are limits that are all off, but for FirstSign, which nothing heeds then.
func Off() Limits { return Limits{WallClock: Never, Safety: Never, Idle: Never, NoProgress: Never} }

// An Action is what a [Verdict] asks for.
type Action int

// The actions. After Warn and Direct the caller applies the verdict to its Snapshot and asks again.
const (
	Continue Action = iota
	Warn            // a fraction of the wall clock was reached
	Direct          // a limit was exceeded, and its ladder asks for something less than a cancel
	Cancel          // a limit was exceeded, and that ends the run
)

// A Verdict says what to do now, and when to look again.
type Verdict struct {
	Action Action
	// Limit is the limit that the action is about. Used and Allowed are how much of it is used and how much there is.
	Limit         Limit
	Used, Allowed time.Duration
	// Fraction is the element of Limits.WarnAt that was reached.
	Fraction float64
	// Directive is what a Direct or a Cancel asks for. Rung is the rung of the limit's ladder that the trip is on, from 1.
	// Last says that it is the last one: nothing follows before the stretch that was measured ends.
	Directive Directive
	Rung      int
	Last      bool
	// Since is when that stretch began: of idle and no progress at the last sign that counts, whatever was asked since.
	Since time.Duration
	// Hold is the key of the hold whose limit was exceeded, HoldSerial its serial.
	Hold       string
	HoldSerial int
	// Count is what the action is about if the limit is a counted one. Used is then what the wall clock shows.
	Count CountUse
	// Next is the first instant at which the answer can change by itself. It is [Never] after a Cancel, and if no limit
	// is on.
	Next time.Duration
}

// Judge says what to do about a run at the instant now. A limit is exceeded if more than it was used. A warning is due
// if its fraction is reached. If several limits are exceeded, the verdict names the one that was exceeded first; at the
// same instant, the first in the list of limits.
func Judge(limits Limits, seen Snapshot, now time.Duration) Verdict {
	first := earliest(&limits, &seen)
	if now >= first.expiresAt() {
		return first.verdict(&limits, now)
	}
	if v, due := judgeSpend(&limits, &seen, now); due {
		return v
	}
	wall := wallClock(&limits, &seen)
	fraction, at := nextWarning(&limits, &seen, &wall)
	wrapUp := wrapUpAt(&limits, &seen, &wall)
	if now < min(at, wrapUp) {
		return Verdict{Next: min(first.expiresAt(), at, wrapUp)}
	}
	v := Verdict{
		Action: Warn, Limit: WallClock, Used: seen.worked(now), Allowed: wall.allowed, Fraction: fraction, Next: now,
	}
	if wrapUp < at {
		v.Action, v.Fraction, v.Directive, v.Rung = Direct, 0, DirectWrapUp, 1
	}
	return v
}

// Left returns how much of the wall clock is left at the instant now, at least 0, or [Never] if it has no limit. An
// observe-only run that has exceeded it goes on with nothing left.
func Left(limits Limits, seen Snapshot, now time.Duration) time.Duration {
	allowed := Sum(limits.WallClock, seen.Extended)
	if allowed == Never {
		return Never
	}
	return max(allowed-seen.worked(now), 0)
}

// Remaining is Left without the reserve, until only that is left: then the host is asked to wrap up, and may use it.
func Remaining(limits Limits, seen Snapshot, now time.Duration) time.Duration {
	left := Left(limits, seen, now)
	if left == Never || left <= limits.Reserve {
		return left
	}
	return left - limits.Reserve
}

// Paused returns how long the wall clock stood still before the instant now.
func Paused(seen Snapshot, now time.Duration) time.Duration { return seen.pauses().Before(now) }

// wrapUpAt returns when the host is to be asked to wrap up. At the same instant as a warning it comes after that.
func wrapUpAt(limits *Limits, seen *Snapshot, wall *timer) time.Duration {
	if wall.allowed == Never || limits.Reserve == 0 || seen.Wrapped {
		return Never
	}
	return seen.pauses().instant(max(wall.allowed-limits.Reserve, 0))
}

// nextWarning returns the next fraction of the wall clock to warn at, and when.
func nextWarning(limits *Limits, seen *Snapshot, wall *timer) (fraction float64, at time.Duration) {
	if wall.allowed == Never || seen.Warned >= len(limits.WarnAt) {
		return 0, Never
	}
	fraction = limits.WarnAt[seen.Warned]
	return fraction, seen.pauses().instant(time.Duration(fraction * float64(wall.allowed)))
}

// Sum adds two lengths. If the sum is too long for a Duration, it is [Never].
func Sum(a, b time.Duration) time.Duration {
	if a > Never-b {
		return Never
	}
	return a + b
}

// Until returns the time from now until at. If at is [Never], so is the result.
func Until(at, now time.Duration) time.Duration {
	if at == Never {
		return Never
	}
	return at - now
}

// AllowedSilence returns how long a run may give no sign of life until its own limits end it: the longest of Idle and
// NoProgress, all rungs of their ladders included, with a delay at each. It is [Never] if they only ever ask for
// something, and 0 if none of them is on.
func AllowedSilence(limits *Limits, delay time.Duration) (longest time.Duration) {
	asks := false
	for _, one := range [...]struct {
		limit  Limit
		length time.Duration
	}{{Idle, limits.longestIdle()}, {NoProgress, limits.NoProgress}} {
		switch ladder := limits.Ladders[one.limit]; {
		case one.length == Never:
		case endsInWait(ladder):
			asks = true
		default:
			longest = max(longest, times(Sum(one.length, delay), lastRung(ladder)))
		}
	}
	if longest == 0 && asks {
		return Never
	}
	return longest
}

// longestIdle is Idle, or the wait for a first sign if that is longer and limited.
func (l *Limits) longestIdle() time.Duration {
	if l.FromFirstSign && l.Idle != Never && l.FirstSign != Never {
		return max(l.Idle, l.FirstSign)
	}
	return l.Idle
}

// SessionThreshold returns how long a session may be silent before a sweeper ends it: its own threshold, if it has one,
// or else the sweeper's, and at least what the limits of the run allow while its process lives.
func SessionThreshold(own, swept, allowance time.Duration) time.Duration {
	switch {
	case allowance > 0:
		return max(swept, allowance)
	case own > 0:
		return own
	}
	return swept
}

// times multiplies a length. If the product is too long for a Duration, it is [Never].
func times(d time.Duration, n int) (product time.Duration) {
	for range n {
		product = Sum(product, d)
	}
	return product
}

// A MonotonicClock turns readings of a clock that can be set back into elapsed time that never runs back: a step back
// counts as no time. The zero value is at zero elapsed time and a zero reading. It is not safe for concurrent use, and
// it needs its readings in the order in which they were taken.
type MonotonicClock struct {
	elapsed, last time.Duration
}

// NewMonotonicClock returns a clock that has reached elapsed at the reading last. A negative elapsed counts as zero.
func NewMonotonicClock(elapsed, last time.Duration) MonotonicClock {
	return MonotonicClock{max(elapsed, 0), last}
}

// Read takes a reading and returns the elapsed time.
func (m *MonotonicClock) Read(reading time.Duration) time.Duration {
	if reading > m.last {
		m.elapsed = Sum(m.elapsed, reading-m.last)
	}
	m.last = reading
	return m.elapsed
}
