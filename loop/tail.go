package loop

// A tail finds rounds of turns that came one right after the other.
type tail struct {
	last [maxPeriod]uint64 // the digests of the last turns; that of turn n is at n modulo maxPeriod
	seen uint64            // how many turns there were
	told uint64            // how many there were when the UNSTUCK was delivered, 0 if none was
	// same is, for each period, how many of the last turns in a row were the same as that many turns before.
	same [maxPeriod + 1]uint64
}

func (t *tail) add(digest uint64) {
	for period := uint64(1); period <= maxPeriod; period++ {
		if t.seen >= period && t.last[(t.seen-period)%maxPeriod] == digest {
			t.same[period]++
		} else {
			t.same[period] = 0
		}
	}
	t.last[t.seen%maxPeriod] = digest
	t.seen++
}

// pattern is the same for every turn of a tail of that period.
func (t *tail) pattern(period int) (sum uint64) {
	for i := range uint64(period) {
		sum += t.last[(t.seen-1-i)%maxPeriod]
	}
	return sum
}

// judge judges the last turn. A tail that ends nothing only asks.
func (t *tail) judge(tool string, ends bool) (most finding) {
	for period := 1; period <= maxPeriod; period++ {
		most = worst(most, t.judgePeriod(period, ends))
	}
	most.Tool = tool // also of none
	return most
}

func (t *tail) judgePeriod(period int, ends bool) finding {
	size := uint64(period)
	length, since := t.same[period]+size, t.seen-t.told
	needed := rounds * size
	if length < needed {
		return finding{}
	}
	asked := t.told > 0 && length >= since+needed
	v := judged(Tail, true, asked, ends && since >= after*size)
	v.Period, v.Rounds = period, int(length/size) //nolint:gosec // a tail is not that long
	v.Since = v.Rounds * period
	v.pattern = t.pattern(period)
	return v
}
