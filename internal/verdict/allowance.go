package verdict

import "time"

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
