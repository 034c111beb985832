package watchdog

// batchSize is how many trips one goroutine carries out where the store answers at once.
const batchSize = 128

// A batch are trips of one moment whose stores answer at once. A goroutine for each would cost more than what it does;
// trips that have to wait for their store get one each, so that a store that hangs holds up only its own runs.
type batch []struct {
	w *Watchdog
	t *trip
}

// add returns the batch with the trip in it, or underway.
func (b batch) add(w *Watchdog, t *trip) batch {
	if !w.instant() {
		go w.carryOut(t)
		return b
	}
	b = append(b, struct {
		w *Watchdog
		t *trip
	}{w, t})
	if len(b) < batchSize {
		return b
	}
	go b.carryOut()
	return nil
}

func (b batch) carryOut() {
	for _, trip := range b {
		trip.w.carryOut(trip.t)
	}
}
