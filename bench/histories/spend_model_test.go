//go:build linux

package histories_test

// A scope may use spendLimit requests, and has slicesOfScope slices, whose IDs several processes take, as one does that
// got no answer.
const (
	spendLimit    = 100
	slicesOfScope = 24
	mostOfSlice   = 20
)

// A spendCall takes a slice or, without a Least, gives back what was not used of it.
type spendCall struct {
	Slice  int   `json:"slice"`
	Least  int64 `json:"least,omitempty"`
	Unused int64 `json:"unused,omitempty"`
}

// A spendAnswer is the answer to a call about a scope.
type spendAnswer struct {
	// Fits, Granted and Charged are those of the grant.
	Fits    bool  `json:"fits,omitempty"`
	Granted int64 `json:"granted,omitempty"`
	Charged int64 `json:"charged,omitempty"`
	// Invalid says that the call was refused: there is no such slice.
	Invalid bool `json:"invalid,omitempty"`
}

// A spendState is what a scope is charged with, and its slices.
type spendState struct {
	charged int64
	slices  [slicesOfScope]slice
}

// A slice is a part of the limit; none of 0 was granted.
type slice struct {
	granted  int64
	returned bool
}

// spends are judged by this model: a slice is charged once, at most the limit is granted in all, nothing that fits is
// refused, and what was not used is given back once.
var spends = objectOf("scope", spendState.step)

func (s spendState) step(c spendCall, a *spendAnswer) (legal bool, next spendState) {
	var want spendAnswer
	if c.Least > 0 {
		want, s = s.take(c)
	} else {
		want, s = s.giveBack(c)
	}
	return a == nil || *a == want, s
}

func (s spendState) take(c spendCall) (spendAnswer, spendState) {
	known := &s.slices[c.Slice]
	if known.granted == 0 {
		if s.charged+c.Least > spendLimit {
			return spendAnswer{Charged: s.charged}, s
		}
		known.granted = max(c.Least, (spendLimit-s.charged)/64)
		s.charged += known.granted
	}
	return spendAnswer{Fits: true, Granted: known.granted, Charged: s.charged}, s
}

func (s spendState) giveBack(c spendCall) (spendAnswer, spendState) {
	known := &s.slices[c.Slice]
	switch {
	case known.granted == 0:
		return spendAnswer{Invalid: true}, s
	case !known.returned:
		known.returned = true
		s.charged -= c.Unused
	}
	return spendAnswer{}, s
}
