package verdict

import "time"

// A MonotonicClock turns readings of a clock that can be set back into elapsed time that never runs back: a step back
// counts as no time. The zero value is at zero elapsed time and a zero reading. It is not safe for concurrent use, and
// it needs its readings in the order in which they were taken.
type MonotonicClock struct {
	elapsed, last time.Duration
}

// NewMonotonicClock returns a clock that has reached elapsed at the reading last. A negative elapsed counts as zero.
func NewMonotonicClock(elapsed, last time.Duration) MonotonicClock {
	return MonotonicClock{max(elapsed, 0), last}
}

// Read takes a reading and returns the elapsed time.
func (m *MonotonicClock) Read(reading time.Duration) time.Duration {
	if reading > m.last {
		m.elapsed = Sum(m.elapsed, reading-m.last)
	}
	m.last = reading
	return m.elapsed
}
