package verdict

// Compared returns how many comparisons of two holds there were.
func (h *Holds) Compared() int { return h.caps.compared + h.idles.compared }
