package loop

import "slices"

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

// has reports whether the pair is remembered.
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
	v := judged(Pair, n >= pairLimit || asked, asked, hard >= after)
	if v.Rule != "" {
		v.Tool, v.Rounds, v.Since, v.pattern = call.name, n, h.ago(began), call.pair
	}
	return v
}

// judgeRedo counts the turns, one right after the other, in which a change was made.
func (h *history) judgeRedo(call *call) finding {
	n := 0
	for call.large && h.pairs.made(call.input, h.turn-uint64(n)) { //nolint:gosec // it is positive
		n++
	}
	since := h.turn - h.delivered
	asked := h.delivered > 0 && uint64(n) >= since+redoLimit //nolint:gosec // it is positive
	v := judged(Redo, n >= redoLimit, asked, since >= redoLimit)
	if v.Rule != "" {
		v.Tool, v.Rounds, v.Since, v.pattern = call.name, n, n, call.input
	}
	return v
}

// made reports whether there was a call with the input in that turn.
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
