package loop

// memory is how many pairs a detector remembers. Less would forget the first calls of turns with many.
const memory = 256

// A pairs is a ring of the pairs of input and outcome, each once for a turn.
type pairs struct {
	digest [memory]uint64
	turn   [memory]uint64 // 0 where there is none
	next   uint64
}

func (p *pairs) add(digest, turn uint64) {
	p.digest[p.next], p.turn[p.next] = digest, turn
	p.next = (p.next + 1) % memory
}

// has reports whether the pair came in that turn or later.
func (p *pairs) has(digest, since uint64) bool {
	return p.count(digest, max(since, 1), ^uint64(0)) > 0
}

// count returns in how many of the turns from first to last the pair came.
func (p *pairs) count(digest, first, last uint64) (n int) {
	for i, d := range p.digest {
		if d == digest && p.turn[i] >= first && p.turn[i] <= last {
			n++
		}
	}
	return n
}

func (h *history) judgePairs(calls []call, c *Config) (worst Verdict) {
	if unlimited(c.Pairs) {
		return Verdict{}
	}
	for i := range calls {
		if v := h.judgePair(calls[i].pair, c); worse(v, worst) {
			worst = v
		}
	}
	return worst
}

func (h *history) judgePair(pair uint64, c *Config) Verdict {
	first := func(last uint64) uint64 { return max(h.changed, back(last, c.Window), 1) }
	n := h.pairs.count(pair, first(h.turn), h.turn)
	asked, since := false, 0
	if h.delivered > 0 && h.turn-h.delivered <= uint64(c.Window) {
		asked = h.pairs.count(pair, first(h.delivered), h.delivered) >= c.Pairs
		since = h.pairs.count(pair, max(first(h.turn), h.delivered+1), h.turn)
	}
	v := judged(Pair, n >= c.Pairs || asked, asked, since >= c.After)
	if v.Rule != "" {
		v.Rounds, v.Pattern = n, pattern(pair)
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
