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
	wording   wording
}

// end ends what a useful call ends.
func (f *futile) end(c *call) {
	if !c.useful {
		return
	}
	for i := range f.series {
		s := &f.series[i]
		if k := s.kind; k != 0 && s.outcome != c.gets && (k == c.tool || k == c.aim || k == c.input) {
			*s = series{}
		}
	}
}

// add counts a futile call, once for a turn.
func (f *futile) add(c *call, turn uint64) {
	if c.gets == 0 {
		return
	}
	s := f.find(c.kind(), c.gets)
	if c.phrased && !s.wording.rephrases(&c.words) {
		return
	}
	if s.last != turn {
		s.count++
		s.last = turn
	}
}

// find returns the series, which begins in an empty place, or in that of the one that was quiet for the longest time.
func (f *futile) find(kind, outcome uint64) *series {
	oldest := &f.series[0]
	for i := range f.series {
		s := &f.series[i]
		if s.kind == kind && s.outcome == outcome {
			return s
		}
		if oldest.kind != 0 && (s.kind == 0 || s.last < oldest.last) {
			oldest = s
		}
	}
	*oldest = series{kind: kind, outcome: outcome}
	return oldest
}

// breakRow forgets polls of a kind that are not in one row with this one: they got something else, or the run did
// something else since.
func (f *futile) breakRow(c *call, turn uint64) {
	for i := range f.series {
		if s := &f.series[i]; s.kind == c.input && (s.outcome != c.pair || s.last != turn) {
			*s = series{}
		}
	}
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
func (h *history) judgeFutile(c *Config) (most finding) {
	h.futile.expire(back(h.turn, c.Window))
	if unlimited(c.Futile) {
		return finding{}
	}
	limit := uint64(c.Futile)
	for i := range h.futile.series {
		s := &h.futile.series[i]
		if s.last != h.turn {
			continue
		}
		v := judged(Futile, s.count >= limit, s.delivered >= limit, s.count-s.delivered >= limit*uint64(c.After))
		if v.Rule != "" {
			v.Rounds, v.pattern = int(s.count), s.kind^s.outcome //nolint:gosec // nobody calls so often
		}
		most = worst(most, v)
	}
	return most
}

// poll counts a call that waits, or may be a poll, and asks about many that get the same. It ends a run only for a host
// that wants that: a poll may have to wait for long.
func (h *history) poll(call *call, c *Config) finding {
	if c.Waits == End {
		h.futile.breakRow(call, h.turn)
	}
	s := h.futile.find(call.input, call.pair)
	s.count++
	s.last = h.turn
	if unlimited(c.Polls) {
		return finding{}
	}
	limit := uint64(c.Polls)
	ends := c.Waits == End && s.count >= limit
	v := judged(Poll, s.count >= limit, ends || s.delivered >= limit, ends)
	if v.Rule != "" {
		v.Rounds, v.pattern = int(s.count), call.pair //nolint:gosec // nobody calls so often
	}
	return v
}
