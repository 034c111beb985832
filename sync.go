package watchdog

import (
	"context"
	"fmt"

	"github.com/seed62658d38/watchdog/internal/clocks"
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
	stop, err := w.r.sync(ctx)
	if err != nil {
		return nil, fmt.Errorf("sync run %s with its events: %w", w.r.Node.Run, err)
	}
	return stop, nil
}

func (r *run) sync(ctx context.Context) (*Stop, error) {
	began := clocks.Now(r.Tree.Clock)
	_ = r.poll() // a run that is late has ended
	if r.Inner().Err() != nil {
		return r.howEnded()
	}
	r.Locked(r.Node.Draw)
	found, err := r.Record.Consult(ctx)
	if err != nil {
		return nil, err
	}
	return r.adopt(&found, began)
}
