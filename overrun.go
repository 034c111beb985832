package watchdog

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/seed62658d38/watchdog/internal/seam"
)

// maxOverruns is how many overruns of calls wait at once to be appended.
const maxOverruns = 1024

// errNotTried says that nobody has asked the store yet: there is no goroutine to do it on.
var errNotTried = errors.New("event store was not asked yet; the next poll or Close does")

// overruns are the events of calls that overran or were abandoned in the run. Those that come while the store is busy
// are appended together, so that at most two tasks are under way: one that is appending and one that waits for it.
type overruns struct {
	mu   sync.Mutex
	open *overrunBatch // takes more events; nil if the next event begins one
}

// An overrunBatch is appended in one exchange. It takes events until that begins.
type overrunBatch struct {
	events  []Event
	dropped int
}

// add puts the event in the open batch. It returns that batch if this event began it, for the caller to append.
func (o *overruns) add(e Event) (begun *overrunBatch) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open == nil {
		o.open = &overrunBatch{}
		begun = o.open
	}
	if len(o.open.events) == maxOverruns {
		o.open.dropped++
		return nil
	}
	o.open.events = append(o.open.events, e)
	return begun
}

// seal ends the batch, once, and returns what is in it.
func (o *overruns) seal(b *overrunBatch) []Event {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open == b {
		o.open = nil
	}
	return b.events
}

// recordOverrun records what became of a call in the run. It never waits for a store: a run that does everything on its
// caller's goroutine does this at the next poll.
func (w *Watchdog) recordOverrun(call seam.Overrun) {
	e := w.overrunEvent(call)
	switch {
	case w.recorder.instant():
		if err := w.append(e); err != nil {
			w.keepOverruns(err, e)
		}
	case w.recorder.inline:
		w.logOverruns(errNotTried, w.keepOverruns(errNotTried, e))
	default:
		if batch := w.overruns.add(e); batch != nil {
			w.appendOverruns(batch)
		}
	}
}

// appendOverruns appends the batch in the background. What cannot be recorded is tried again.
func (w *Watchdog) appendOverruns(batch *overrunBatch) {
	err, dropped := errStoreExited, 0
	w.recorder.background(func() {
		defer func() { // also if the store ends this goroutine
			events := w.overruns.seal(batch)
			if dropped = batch.dropped; err != nil {
				dropped += w.keepOverruns(err, events...)
			}
		}()
		_, err = exchange(w.storeContext(), &w.recorder, func(ctx context.Context) (nothing, error) {
			return nothing{}, w.recorder.store.Append(ctx, w.overruns.seal(batch)...)
		})
	}, func() { w.logOverruns(err, dropped) }) // when Close need not wait for it
}

// logOverruns logs an error of the store, and how many overruns nobody will record.
func (w *Watchdog) logOverruns(err error, dropped int) {
	switch {
	case dropped > 0:
		w.log().Error("watchdog dropped overruns of calls: too many wait for the event store", "run", w.id, "dropped",
			dropped, "error", err)
	case err != nil && !errors.Is(err, errNotTried):
		w.log().Error("watchdog could not record overruns of calls", "run", w.id, "error", err)
	}
}

// keepOverruns keeps the events for another try, and has the next poll look closely, so that it tries. It returns how
// many were dropped.
func (w *Watchdog) keepOverruns(err error, events ...Event) (dropped int) {
	dropped = w.recorder.keepFirst(err, events...)
	w.quietUntil.Store(0)
	return dropped
}

// keepFirst keeps events before all others that are kept, behind those that came this way: of too many these are
// dropped, the oldest first, and never a stop for them.
func (r *recorder) keepFirst(err error, events ...Event) (dropped int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending == nil {
		r.pending = &pending{}
	}
	kept := r.pending.events
	at := slices.IndexFunc(kept, func(e Event) bool { return e.Type != EventOverrun })
	if at < 0 {
		at = len(kept)
	}
	all := slices.Concat(kept[:at], events, kept[at:])
	dropped = max(len(all)-maxPending, 0)
	r.pending.events, r.pending.err = all[dropped:], err
	return dropped
}
