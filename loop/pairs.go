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

// count returns in how many of the turns from first to last the pair came, and the first of these.
func (p *pairs) count(c *call, first, last uint64) (n int, began uint64) {
	began = last
	for i, pair := range p.pair {
		if pair == c.pair && p.turn[i] >= first && p.turn[i] <= last {
			n++
			began = min(began, p.turn[i])
		}
	}
	return n, began
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

func (h *history) judgePairs(calls []call) (most finding) {
	for i := range calls {
		most = worst(most, h.judgePair(&calls[i]))
	}
	return most
}

// judgePair counts a pair since the last new successful change, and since its input last got something else.
func (h *history) judgePair(call *call) finding {
	broken := h.pairs.changed(call, h.turn)
	first := max(h.changed, broken+1, back(h.turn, window))
	n, began := h.pairs.count(call, first, h.turn)
	asked, since := false, 0
	if d := h.delivered; d >= max(h.changed, broken+1, 1) && h.turn-d <= window {
		told, _ := h.pairs.count(call, max(h.changed, broken+1, back(d, window)), d)
		asked = told >= pairLimit
		since, _ = h.pairs.count(call, d+1, h.turn)
	}
	v := judged(Pair, n >= pairLimit || asked, asked, since >= after)
	if v.Rule != "" {
		v.Tool, v.Rounds, v.pattern = call.name, n, call.pair
		v.Since = h.ago(began)
	}
	return v
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
