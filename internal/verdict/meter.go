package verdict

import "time"

// A Meter turns the readings of a clock that may be set back into time that never runs back: a step back counts as
// nothing, and time goes on from there. Its zero value stands at zero. Readings must be given in the order in which
// they were taken.
type Meter struct {
	elapsed, last time.Duration
}

// MeterAt returns a meter that shows elapsed, never less than zero, at the reading last.
func MeterAt(elapsed, last time.Duration) Meter { return Meter{max(elapsed, 0), last} }

// Read takes a reading and returns the time that has elapsed.
func (m *Meter) Read(reading time.Duration) time.Duration {
	if reading > m.last {
		m.elapsed = Sum(m.elapsed, reading-m.last)
	}
	m.last = reading
	return m.elapsed
}
