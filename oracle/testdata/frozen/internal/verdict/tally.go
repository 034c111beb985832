package verdict

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

// SubAll takes another sum away.
func (t *Tally) SubAll(other Tally) {
	rest := t.low - other.low
	t.high += rest>>63 - other.high
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
