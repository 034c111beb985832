package loop

// A tail finds rounds of turns that came one right after the other.
type tail struct {
	last [MaxPeriod]uint64 // the digests of the last turns; that of turn n is at n modulo MaxPeriod
	seen uint64            // how many turns there were
	// same is, for each period, how many of the last turns, without a gap, were the same as that many turns before.
	same [MaxPeriod + 1]uint64
}

func (t *tail) add(digest uint64) {
	for period := uint64(1); period <= MaxPeriod; period++ {
		if t.seen >= period && t.last[(t.seen-period)%MaxPeriod] == digest {
			t.same[period]++
		} else {
			t.same[period] = 0
		}
	}
	t.last[t.seen%MaxPeriod] = digest
	t.seen++
}

// pattern is the same for every turn of a tail of that period.
func (t *tail) pattern(period int) (sum uint64) {
	for i := range uint64(period) {
		sum += t.last[(t.seen-1-i)%MaxPeriod]
	}
	return sum
}

func (h *history) judgeTail(c *Config) (most finding) {
	if unlimited(c.Period) {
		return finding{}
	}
	for period := 1; period <= c.Period; period++ {
		most = worst(most, h.judgePeriod(period, c))
	}
	return most
}

func (h *history) judgePeriod(period int, c *Config) finding {
	size := uint64(period)
	length, since := h.tail.same[period]+size, h.turn-h.delivered
	needed := uint64(c.Rounds) * size
	if length < needed {
		return finding{}
	}
	asked := h.delivered > 0 && length >= since+needed
	v := judged(Tail, true, asked, since >= uint64(c.After)*size)
	v.Period, v.Rounds = period, int(length/size) //nolint:gosec // a tail is not that long
	v.pattern = h.tail.pattern(period)
	return v
}
