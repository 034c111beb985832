package loop

// A waiting is the waits since the last turn that counts.
type waiting struct {
	time  uint64 // nanoseconds, 0 if there was none, and unknown if the Gap of one is
	first uint64 // the first pair that was taken for a poll since the last wait, 0 if none was
}

// waits notes a step of class Wait. Waits add up until something is looked at.
func (h *history) waits(s *Step, class Class) {
	if class != Wait || s.Retry {
		return
	}
	w := &h.waiting
	if w.first != 0 {
		*w = waiting{}
	}
	if s.Gap <= 0 || w.time == unknown {
		w.time = unknown
		return
	}
	w.time += uint64(s.Gap)
}

// polls reports whether a call is a poll: it waits, or it got the same before and time or waits have passed.
func (d *Detector) polls(c *call) bool {
	w := &d.history.waiting
	switch {
	case c.waits:
		return true
	case !c.again, d.config.Mode == Strict:
		return false
	case c.slow:
		return true
	case d.without.lacks(theWaiting), w.time < uint64(c.need), w.first == c.pair: //nolint:gosec // it is positive
		return false
	case w.first == 0:
		w.first = c.pair
	}
	return true
}
