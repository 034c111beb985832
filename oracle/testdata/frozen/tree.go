package watchdog

import "sync"

// A tree is a session with all its layers, under one lock: a layer's hold, charge and end are the session's too, and
// happen to all of them at once.
//
// Rejected: a mutex for each run. What concerns several of them was done one after the other then, on goroutines of
// their own where a lock was held, and was seen half done in between.
type tree struct {
	sync.Mutex
	left []func() // what ended holds, pauses and runs leave to whoever unlocks
}

// session returns the run around all others.
func (w *Watchdog) session() *Watchdog {
	for w.outer != nil {
		w = w.outer
	}
	return w
}

// leave has a registration with a context ended once the lock is free, because that can be the host's code. The caller
// holds the lock.
func (t *tree) leave(w *Watchdog, stop func() bool) {
	if stop != nil {
		t.left = append(t.left, func() { w.callHost("AfterFunc", func() { stop() }) })
	}
}

// Unlock unlocks the tree. What was left is ended on a goroutine of its own: whoever unlocks may hold the lock of
// another session, or must not wait for the host.
func (t *tree) Unlock() {
	left := t.left
	t.left = nil
	t.Mutex.Unlock()
	if len(left) > 0 {
		go each(left, func(stop func()) { stop() })
	}
}

// unlock unlocks mu, and tells the host what was traced.
func (w *Watchdog) unlock() {
	w.mu.Unlock()
	w.deliverTrace()
}

// addLayer puts an open layer in the list of its run. The caller holds mu.
func (w *Watchdog) addLayer(layer *Watchdog) {
	if layer.lineage.next = w.layers; w.layers != nil {
		w.layers.lineage.before = layer
	}
	w.layers = layer
}

// removeLayer does nothing for one that was removed. The caller holds mu.
func (w *Watchdog) removeLayer(layer *Watchdog) {
	at := layer.lineage
	switch {
	case at.before != nil:
		at.before.lineage.next = at.next
	case w.layers == layer:
		w.layers = at.next
	}
	if at.next != nil {
		at.next.lineage.before = at.before
	}
	at.next, at.before = nil, nil
}

// eachLayer makes the call for all that is inside the run. The caller holds mu.
func (w *Watchdog) eachLayer(call func(layer *Watchdog)) {
	for layer := w.layers; layer != nil; layer = layer.lineage.next {
		call(layer)
		layer.eachLayer(call)
	}
}

// endLayers ends the layers of a run that has ended. One whose end is being recorded stays until that is done. The
// caller holds mu.
func (w *Watchdog) endLayers() {
	for layer := w.layers; layer != nil; {
		next := layer.lineage.next
		layer.endWithOuter()
		layer = next
	}
}
