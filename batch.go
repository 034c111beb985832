package watchdog

// batchSize is how many trips one goroutine carries out where the store answers at once.
const batchSize = 128

// A batch are trips of one moment whose stores answer at once. A goroutine for each would cost more than what it does;
// trips that have to wait for their store get one each, so that a store that hangs holds up only its own runs.
type batch []tripOf

// A tripOf is a run and its trip.
type tripOf struct {
	w *Watchdog
	t *trip
}

// add returns the batch with the trip in it, or underway.
func (b batch) add(w *Watchdog, t *trip) batch {
	if !w.instant() {
		go w.carryOut(t)
		return b
	}
	if b = append(b, tripOf{w, t}); len(b) < batchSize {
		return b
	}
	go b.carryOut()
	return nil
}

func (b batch) carryOut() {
	for _, run := range b {
		run.w.carryOut(run.t)
	}
}
