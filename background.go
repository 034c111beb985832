package watchdog

// background runs the task on a goroutine of its own, for Close to wait for, and then whatever comes after it, for which Close does not
// wait. The caller holds mu.
func (w *Watchdog) background(task, after func()) {
	earlier, done := w.underway, make(chan struct{})
	w.underway = done
	go func() {
		task()
		if earlier != nil {
			<-earlier
		}
		close(done)
		after()
	}()
}

// awaitBackground returns when every task that was begun has ended.
func (w *Watchdog) awaitBackground() {
	w.mu.Lock()
	underway := w.underway
	w.mu.Unlock()
	if underway != nil {
		<-underway
	}
}
