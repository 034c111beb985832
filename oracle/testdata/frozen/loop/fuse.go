package loop

import "math/bits"

// A fuse remembers which of the last pairs were seen before, the last one in the lowest bit.
type fuse struct{ low, high uint64 }

func (f *fuse) add(seen bool) {
	f.high = f.high<<1 | f.low>>63
	f.low <<= 1
	if seen {
		f.low |= 1
	}
}

// count returns how many of the last n pairs, at most 128, were seen before.
func (f *fuse) count(n int) int {
	low, high := f.low, f.high
	if n < 64 {
		low, high = low&(1<<n-1), 0
	} else {
		high &= 1<<(n-64) - 1
	}
	return bits.OnesCount64(low) + bits.OnesCount64(high)
}

func (h *history) judgeFuse(c *Config) finding {
	n := h.fuse.count(c.FuseOf)
	if unlimited(c.Fuse) || n < c.Fuse {
		return finding{}
	}
	return finding{Verdict: Verdict{Advice: End, Rule: Fuse, Rounds: n}}
}
