package watchdog

// RingAll rings the runs as the timer of all runs does. In a testing/synctest bubble, where each run has a timer of its
// own, StopTimer has to come first.
func RingAll(runs ...*Watchdog) { ringAll(runs) }

// StopTimer stops the run's own timer.
func StopTimer(w *Watchdog) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
}

// KeptSlices is how many slices the memory knows.
func (m *Memory) KeptSlices() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.spend.slices)
}
