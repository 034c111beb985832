package verdict

import (
	"math"
	"slices"

	"github.com/seed62658d38/watchdog/internal/taxonomy"
)

// A Kind is what a count counts.
type Kind int

// The kinds that add up, in the order of [taxonomy.Counts]. Tokens are those in and out together.
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

// The kinds that do not: the input of one call, and how many calls in a row failed or are to be tried again.
const (
	KindCallInput Kind = kinds + iota
	KindErrors
	KindRetries
)

// KindOf returns the kind with the name, or -1.
func KindOf(name string) Kind {
	return Kind(slices.IndexFunc(taxonomy.Counts[:], func(c taxonomy.Count) bool { return c.Name == name }))
}

// Limit returns the limit that counts of the kind are measured by.
func (k Kind) Limit() Limit { return Limit(taxonomy.Counts[k].Limit) }

// Field returns the name that Go code has for the kind.
func (k Kind) Field() string { return taxonomy.Counts[k].Field }

// Adds reports whether counts of the kind add up.
func (k Kind) Adds() bool { return k < kinds }

func (k Kind) inRow() bool { return k == KindErrors || k == KindRetries }

// String returns the name of the kind, as events have it.
func (k Kind) String() string { return taxonomy.Counts[k].Name }

// Counts are one number for each kind.
type Counts [kinds]int64

// SumTokens sets the tokens to those in and out.
func (c *Counts) SumTokens() { c[KindTokens] = AddCount(c[KindInput], c[KindOutput]) }

// Endless is a count that nothing exceeds.
const Endless = math.MaxInt64

// AddCount adds two counts that are not negative. If the sum is too much for a number, it is [Endless].
func AddCount(a, b int64) int64 {
	if b > 0 && a > Endless-b {
		return Endless
	}
	return a + b
}

// Fits reports whether that much more fits in a limit of which so much is used. Nothing fits always.
func Fits(more, limit, used int64) bool {
	return more == 0 || limit == Endless || AddCount(used, more) <= limit
}

// A Tally is a sum of counts that can be taken away again, also if it was too much for a number meanwhile. The zero
// value is nothing.
type Tally struct {
	high int64
	low  int64 // never negative; the sum is high * 2^63 + low
}

// Add adds a count.
func (t *Tally) Add(n int64) {
	if sum := t.low + n; sum|n >= 0 { // nearly always; written so that it is inlined
		t.low = sum
		return
	}
	t.addHigh(n)
}

func (t *Tally) addHigh(n int64) {
	sum := uint64(t.low) + uint64(n&Endless) //nolint:gosec // neither is negative
	t.high += n>>63 + int64(sum>>63)         //nolint:gosec // one bit
	t.low = int64(sum & Endless)
}

// Sub takes a count away.
func (t *Tally) Sub(n int64) {
	if rest := t.low - n; rest|n >= 0 {
		t.low = rest
		return
	}
	t.subHigh(n)
}

func (t *Tally) subHigh(n int64) {
	rest := t.low - n&Endless
	t.high += rest>>63 - n>>63
	t.low = rest & Endless
}

// Count returns the sum: [Endless] for what is too much for a number, or as much below zero.
func (t Tally) Count() int64 {
	if t.high == 0 { // written so that it is inlined
		return t.low
	}
	return t.clamp()
}

func (t Tally) clamp() int64 {
	switch {
	case t.high > 0:
		return Endless
	case t.high == -1:
		return max(t.low-Endless-1, -Endless)
	}
	return -Endless
}
