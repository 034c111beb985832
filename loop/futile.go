package loop

import "slices"

// A futile follows calls whose inputs differ and that get nothing, or fail in the same way.
type futile struct{ series [tries]series }

// A series is futile calls of one kind.
type series struct {
	kind      uint64 // digest of what a call with a useful outcome ends; 0 where there is no series
	outcome   uint64 // digest of what they get
	count     uint64 // in how many turns
	delivered uint64 // the count when the UNSTUCK was delivered
	first     uint64 // the first of those turns
	last      uint64 // the last of them
	wording   wording
}

// follow takes the calls of a turn. Their order does not matter.
func (f *futile) follow(calls []call, turn uint64) {
	for i := range calls {
		f.end(&calls[i])
	}
	for i := range calls {
		f.add(&calls[i], turn)
	}
}

// end ends what a useful call ends.
func (f *futile) end(c *call) {
	f.drop(func(s *series) bool {
		same := s.kind == c.tool || s.kind == c.aim || s.kind == c.input
		return s.kind == streak && !c.failed && c.useful || s.kind != 0 && c.useful && same && s.outcome != c.gets
	})
}

// add counts a futile call, once for a turn.
func (f *futile) add(c *call, turn uint64) {
	if c.failed {
		if s := f.find(streak, 0, turn); s.count > 0 || c.gets != nothing { // it does not begin with a search
			s.countIn(turn)
		}
	}
	if c.gets == 0 {
		return
	}
	if s := f.find(c.kind(), c.gets, turn); !c.phrased || s.wording.rephrases(&c.words) {
		s.countIn(turn)
	}
}

func (s *series) countIn(turn uint64) {
	if s.last != turn {
		s.count++
		s.last = turn
	}
}

// find returns the series. It begins in an empty place, or in that of the one that was quiet for the longest time.
func (f *futile) find(kind, outcome, turn uint64) *series {
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
	*oldest = series{kind: kind, outcome: outcome, first: turn}
	return oldest
}

// drop forgets the series of which that is true.
func (f *futile) drop(what func(s *series) bool) {
	for i := range f.series {
		if s := &f.series[i]; what(s) {
			*s = series{}
		}
	}
}

func (f *futile) deliver() {
	for i := range f.series {
		f.series[i].delivered = f.series[i].count
	}
}

// judgeFutile takes many calls for a round, because a search through many places finds nothing in most of them.
func (h *history) judgeFutile(calls []call) (most finding) {
	first := back(h.turn, window)
	h.futile.drop(func(s *series) bool { return s.last < first })
	for i := range h.futile.series {
		s := &h.futile.series[i]
		if s.last != h.turn {
			continue
		}
		rule, limit, ends := Futile, uint64(futileLimit), s.count-s.delivered >= futileLimit*after
		if s.kind == streak {
			rule, limit, ends = Streak, streakLimit, false
		}
		v := judged(rule, s.count >= limit, s.delivered >= limit, ends)
		if v.Rule != "" {
			v.Rounds, v.Since, v.pattern = int(s.count), h.ago(s.first), s.kind^s.outcome //nolint:gosec // nobody calls so often
			of := slices.IndexFunc(calls, func(c call) bool { return s.kind == streak || c.kind() == s.kind })
			v.Tool = calls[max(of, 0)].name
		}
		most = worst(most, v)
	}
	return most
}

// poll counts a call that waits, or may be a poll, and asks about many that get the same.
func (d *Detector) poll(call *call) finding {
	h, waits := &d.history, d.config.Waits
	if waits == End {
		h.futile.drop(func(s *series) bool { // what is not in one row with this call
			return s.kind == call.input && (s.outcome != call.rough || s.last != h.turn)
		})
	}
	s := h.futile.find(call.input, call.rough, h.turn)
	s.count++
	s.last = h.turn
	limit := uint64(pollLimit)
	if waits == End {
		limit = waitLimit
	}
	ends := waits == End && s.count >= limit
	v := judged(Poll, s.count >= limit, ends || s.delivered >= limit, ends)
	if v.Rule != "" {
		v.Tool, v.pattern = call.name, call.rough
		v.Rounds = int(s.count) //nolint:gosec // nobody calls so often
		v.Since = max(h.ago(s.first), v.Rounds)
	}
	return v
}
