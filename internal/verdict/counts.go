package verdict

import (
	"math"
	"time"
)

// A Kind is what a count counts.
type Kind int

// The kinds that add up. Tokens are those in and out together.
const (
	KindInput Kind = iota
	KindOutput
	KindTokens
	KindCost
	KindRequests
	KindTurns
	KindToolCalls
	kinds
)

var kindNames = [kinds]string{"input_tokens", "output_tokens", "tokens", "cost", "requests", "turns", "tool_calls"}

// String returns the name of the kind, as events have it.
func (k Kind) String() string { return kindNames[k] }

// Counts are one number for each kind.
type Counts [kinds]int64

// Endless is a count that nothing exceeds.
const Endless = math.MaxInt64

// sliceShare is the part of what is left of a shared limit that one slice takes, unless its call needs more.
const sliceShare = 64

// AddCount adds two counts that are not negative. If the sum is too much for a number, it is [Endless].
func AddCount(a, b int64) int64 {
	if b > 0 && a > Endless-b {
		return Endless
	}
	return a + b
}

// Fits reports whether that much more fits in a limit of which so much is used. Nothing fits always.
func Fits(more, limit, used int64) bool { return more == 0 || limit == Endless || AddCount(used, more) <= limit }

// SliceOf returns how much to take at once of a limit of which so much is used: what is needed at least, or a share of
// what is left. Of what has no limit it is what is needed.
func SliceOf(least, limit, used int64) int64 {
	if limit == Endless {
		return least
	}
	return max(least, (limit-used)/sliceShare)
}

// Period returns the hour, day or month of the calendar that the time is in, in its own zone. Any other name has no
// end: then both are zero.
func Period(name string, now time.Time) (begins, ends time.Time) {
	year, month, day := now.Date()
	switch name {
	case "hour":
		begins = now.Truncate(time.Second).Add(-time.Duration(now.Minute())*time.Minute -
			time.Duration(now.Second())*time.Second)
		return begins, begins.Add(time.Hour)
	case "day":
		return time.Date(year, month, day, 0, 0, 0, 0, now.Location()),
			time.Date(year, month, day+1, 0, 0, 0, 0, now.Location())
	case "month":
		return time.Date(year, month, 1, 0, 0, 0, 0, now.Location()),
			time.Date(year, month+1, 1, 0, 0, 0, 0, now.Location())
	}
	return time.Time{}, time.Time{}
}
