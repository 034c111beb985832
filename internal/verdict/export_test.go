package verdict

import "time"

// Compared returns how many comparisons of two holds there were.
func (h *Holds) Compared() int { return h.caps.compared + h.idles.compared }

// Instant is the first instant at which the wall clock shows that much.
func (p *Pauses) Instant(worked time.Duration) time.Duration { return p.instant(worked) }
