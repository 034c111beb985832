package loop

import "slices"

// memory is how many pairs a detector remembers. Less would forget the first calls of turns with many.
const memory = 256

// A pairs is a ring of the pairs of input and outcome, each once for a turn.
type pairs struct {
	pair  [memory]uint64
	input [memory]uint64
	turn  [memory]uint64 // 0 where there is none
	next  uint64
}

func (p *pairs) add(c *call, turn uint64) {
	p.pair[p.next], p.input[p.next], p.turn[p.next] = c.pair, c.input, turn
	p.next = (p.next + 1) % memory
}

// has reports whether the pair is remembered.
func (p *pairs) has(pair uint64) bool { return slices.Contains(p.pair[:], pair) }

// count returns in how many of the turns from first to last the pair came.
func (p *pairs) count(c *call, first, last uint64) (n int) {
	for i, pair := range p.pair {
		if pair == c.pair && p.turn[i] >= first && p.turn[i] <= last {
			n++
		}
	}
	return n
}

// changed returns the last turn, up to that one, in which the input of the call got another outcome, or 0.
func (p *pairs) changed(c *call, last uint64) (turn uint64) {
	for i, input := range p.input {
		if input == c.input && p.pair[i] != c.pair && p.turn[i] <= last {
			turn = max(turn, p.turn[i])
		}
	}
	return turn
}

// repeats reports whether the input of the call got the same the last time, in that turn or later.
func (p *pairs) repeats(c *call, since uint64) bool {
	first := max(since, p.changed(c, ^uint64(0))+1, 1)
	return p.count(c, first, ^uint64(0)) > 0
}

func (h *history) judgePairs(calls []call, c *Config) (most finding) {
	if unlimited(c.Pairs) {
		return finding{}
	}
	for i := range calls {
		most = worst(most, h.judgePair(&calls[i], c))
	}
	return most
}

// judgePair counts a pair since the last new successful change, and since its input last got something else.
func (h *history) judgePair(call *call, c *Config) finding {
	broken := h.pairs.changed(call, h.turn)
	first := max(h.changed, broken+1, back(h.turn, c.Window))
	n := h.pairs.count(call, first, h.turn)
	asked, since := false, 0
	if d := h.delivered; d >= max(h.changed, broken+1, 1) && h.turn-d <= uint64(c.Window) {
		asked = h.pairs.count(call, max(h.changed, broken+1, back(d, c.Window)), d) >= c.Pairs
		since = h.pairs.count(call, d+1, h.turn)
	}
	v := judged(Pair, n >= c.Pairs || asked, asked, since >= c.After)
	if v.Rule != "" {
		v.Rounds, v.pattern = n, call.pair
	}
	return v
}

// back returns the first of the n turns that end with last.
func back(last uint64, n int) uint64 {
	if last < uint64(n) {
		return 1
	}
	return last - uint64(n) + 1
}
