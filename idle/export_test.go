package idle

import "time"

// RingLate has the alarm, which rings on time in a bubble, have been set for so much earlier.
func (t *Timer) RingLate(by time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.setFor -= by
}
