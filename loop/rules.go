package loop

import "slices"

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
	since := t.seen - t.told
	for period := 1; period <= maxPeriod; period++ {
		size := uint64(period)
		length, needed := t.same[period]+size, rounds*size
		if length < needed {
			continue
		}
		n := int(length / size) //nolint:gosec // a tail is not that long
		f := finding{Verdict{Rule: Tail, Tool: tool, Period: period, Rounds: n, Since: n * period}, t.pattern(period)}
		most = worst(most, f.judged(true, length >= since+needed, ends && since >= after*size))
	}
	return most
}

// A pairs is a ring of the pairs of input and outcome, each once for a turn.
type pairs struct {
	pair  [memory]uint64
	input [memory]uint64
	turn  [memory]uint64 // 0 where there is none; of what may be a poll all its bits are turned over
	next  uint64
}

func (p *pairs) add(c *call, turn uint64) {
	if c.soft {
		turn = ^turn
	}
	p.pair[p.next], p.input[p.next], p.turn[p.next] = c.pair, c.input, turn
	p.next = (p.next + 1) % memory
}

// at returns the turn of the pair at i, and whether it may be a poll.
func (p *pairs) at(i int) (turn uint64, soft bool) {
	turn = p.turn[i]
	if soft = turn > 1<<63; soft {
		turn = ^turn
	}
	return turn, soft
}

func (p *pairs) has(pair uint64) bool { return slices.Contains(p.pair[:], pair) }

// count returns in how many of the turns from first to last the pair came, in how many of them hard, and the first.
func (p *pairs) count(pair, first, last uint64) (n, hard int, began uint64) {
	began = last
	for i := range p.pair {
		if p.pair[i] != pair {
			continue
		}
		if turn, soft := p.at(i); turn >= first && turn <= last {
			n++
			began = min(began, turn)
			if !soft {
				hard++
			}
		}
	}
	return n, hard, began
}

// changed returns the last turn in which the input of the call got another outcome, or 0.
func (p *pairs) changed(c *call) (last uint64) {
	for i, input := range p.input {
		if input == c.input && p.pair[i] != c.pair {
			turn, _ := p.at(i)
			last = max(last, turn)
		}
	}
	return last
}

// judgePair counts a pair since the last new successful change, and since its input last got something else.
func (h *history) judgePair(call *call) finding {
	since := max(h.changed, h.pairs.changed(call)+1)
	if call.stands { // and since anything is new, because whoever goes on may look again
		since = max(since, h.fresh+1)
	}
	n, _, began := h.pairs.count(call.pair, max(since, back(h.turn, window)), h.turn)
	asked, hard := false, 0
	if d := h.delivered; d >= since && h.turn-d <= window {
		told, _, _ := h.pairs.count(call.pair, max(since, back(d, window)), d)
		asked = told >= pairLimit
		_, hard, _ = h.pairs.count(call.pair, max(d, h.made)+1, h.turn)
	}
	f := finding{Verdict{Rule: Pair, Tool: call.name, Rounds: n, Since: h.ago(began)}, call.pair}
	return f.judged(n >= pairLimit || asked, asked, hard >= after)
}

// judgeRedo counts the turns, one right after the other, in which a change was made.
func (h *history) judgeRedo(call *call) finding {
	n := 0
	for call.large && h.pairs.made(call.input, h.turn-uint64(n)) { //nolint:gosec // it is positive
		n++
	}
	since := h.turn - h.delivered
	asked := uint64(n) >= since+redoLimit //nolint:gosec // it is positive
	f := finding{Verdict{Rule: Redo, Tool: call.name, Rounds: n, Since: n}, call.input}
	return f.judged(n >= redoLimit, asked, since >= redoLimit)
}

func (p *pairs) made(input, turn uint64) bool {
	for i := range p.input {
		if at, _ := p.at(i); at == turn && p.input[i] == input && turn > 0 {
			return true
		}
	}
	return false
}

// ago returns how many turns there are from that one to the last, with both.
func (h *history) ago(turn uint64) int { return int(h.turn - turn + 1) } //nolint:gosec // nobody has so many turns

// back returns the first of the n turns that end with last.
func back(last uint64, n int) uint64 {
	if last < uint64(n) {
		return 1
	}
	return last - uint64(n) + 1
}

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
		at := slices.IndexFunc(calls, func(c call) bool { return s.kind == streak || c.kind() == s.kind })
		of := &calls[max(at, 0)]
		f := h.ofSeries(s, Verdict{Rule: rule, Tool: of.name}, s.kind^s.outcome)
		most = worst(most, f.judged(s.count >= limit, s.delivered >= limit, ends && !of.guessed))
	}
	return most
}

// ofSeries completes the finding about a series.
func (h *history) ofSeries(s *series, v Verdict, pattern uint64) finding {
	v.Rounds, v.Since = int(s.count), h.ago(s.first) //nolint:gosec // nobody calls so often
	return finding{v, pattern}
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
	f := h.ofSeries(s, Verdict{Rule: Poll, Tool: call.name}, call.rough)
	f.Since = max(f.Since, f.Rounds)
	return f.judged(s.count >= limit, ends || s.delivered >= limit, ends)
}
