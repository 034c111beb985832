package loop

// tries is how many series of futile calls a detector follows at once.
const tries = 16

// A futile follows calls whose inputs differ and that get nothing, or fail in the same way.
type futile struct{ series [tries]series }

// A series is futile calls of one kind.
type series struct {
	kind      uint64 // digest of what a call with a useful outcome ends; 0 where there is no series
	outcome   uint64 // digest of what they get
	count     uint64 // in how many turns
	delivered uint64 // the count when the UNSTUCK was delivered
	last      uint64 // the last of those turns
}

// add counts a futile call, and ends what a useful one ends.
func (f *futile) add(c *call, turn uint64) {
	if c.futile == 0 {
		for i := range f.series {
			if k := f.series[i].kind; k != 0 && (k == c.tool || k == c.aim) {
				f.series[i] = series{}
			}
		}
		return
	}
	s := f.find(c)
	if s.kind != c.kind() || s.outcome != c.futile {
		*s = series{kind: c.kind(), outcome: c.futile}
	}
	if s.last != turn {
		s.count++
		s.last = turn
	}
}

// find returns the series of a call, or the one that was quiet for the longest time.
func (f *futile) find(c *call) *series {
	oldest := &f.series[0]
	for i := range f.series {
		s := &f.series[i]
		if s.kind == c.kind() && s.outcome == c.futile {
			return s
		}
		if s.last < oldest.last {
			oldest = s
		}
	}
	return oldest
}

// expire forgets the series without a call in the window.
func (f *futile) expire(first uint64) {
	for i := range f.series {
		if f.series[i].last < first {
			f.series[i] = series{}
		}
	}
}

func (f *futile) deliver() {
	for i := range f.series {
		f.series[i].delivered = f.series[i].count
	}
}

// judgeFutile takes as many calls as are asked about for a round, because a search through many places finds nothing in
// most of them.
func (h *history) judgeFutile(_ []call, c *Config) (worst Verdict) {
	h.futile.expire(back(h.turn, c.Window))
	if unlimited(c.Futile) {
		return Verdict{}
	}
	limit := uint64(c.Futile)
	for i := range h.futile.series {
		s := &h.futile.series[i]
		if s.last != h.turn {
			continue
		}
		v := judged(Futile, s.count >= limit, s.delivered >= limit, s.count-s.delivered >= limit*uint64(c.After))
		if worse(v, worst) {
			worst = v
			worst.Rounds, worst.Pattern = int(s.count), pattern(s.kind^s.outcome) //nolint:gosec // nobody calls so often
		}
	}
	return worst
}
