package watchdog

import (
	"context"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/clocks"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/fold"
)

// Sync reads from the store what others did to the run's window, such as a sweeper on another host, and adopts it: a
// cancel ends the run, with the stored stop as the cause, that it is complete ends it, too, an extension counts.
// Nothing is recorded. A run that is only observed ends as well, because the stored cancel was carried out, and the
// next attach finds it so.
//
// Sync returns the run's stop, nil while it goes on. It takes at most the record timeout, or as long as the context
// lasts; the run's limits go on meanwhile. The error wraps the store's, the context's or [ErrUnreadableEvent], and then
// nothing has changed; or [ErrEnded], if the run has ended without a stop. On a nil Watchdog it does nothing.
func (w *Watchdog) Sync(ctx context.Context) (*Stop, error) {
	if w == nil {
		return nil, nil
	}
	stop, err := w.sync(ctx)
	if err != nil {
		return nil, fmt.Errorf("sync run %s with its events: %w", w.id, err)
	}
	return stop, nil
}

func (w *Watchdog) sync(ctx context.Context) (*Stop, error) {
	began := clocks.Now(w.clock.other)
	_ = w.poll() // a run that is late has ended
	if w.inner.Err() != nil {
		return w.ending()
	}
	found, err := exchange(ctx, &w.recorder, w.consult)
	if err != nil {
		return nil, err
	}
	return w.adopt(&found, began)
}

// adopt does what the store says, unless the run has ended meanwhile. The caller has waited since began.
func (w *Watchdog) adopt(found *fold.Window, began time.Time) (*Stop, error) {
	n := &news{}
	defer w.tellSince(began, n)
	adopted := w.whileRunning(func() {
		switch {
		case found.Complete():
			w.endComplete()
		case found.Stop != nil:
			n.asleep, n.stop = w.endStopped(found.Stop)
		default:
			w.learnPauses(found.Paused())
			w.takeExtensions(found)
		}
	})
	if !adopted || found.Complete() {
		return w.ending()
	}
	return n.stop, nil
}
