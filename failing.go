package watchdog

import (
	"context"
	"fmt"
	"time"
)

// checkFailing returns an error if guards have stopped the run too often in a row for another window. It reads all
// events of the run, and only where the host limits that.
func (w *Watchdog) checkFailing(ctx context.Context, found *window, most int) error {
	if most == 0 || most == NoLimit || found.stop == nil {
		return nil
	}
	ctx, cancel := w.attachContext(ctx)
	defer cancel()
	h, err := w.readWhole(ctx)
	if err != nil {
		return fmt.Errorf("count the stops of run %s: %w", w.id, err)
	}
	if n := h.stopsInRow(found.startedAt); n >= most {
		return fmt.Errorf("%w: run %s was stopped %d times in a row, at last by %s; find out why it fails, and resume it "+
			"with a larger MaxStops than %d", ErrFailing, w.id, n, found.stop.Code, most)
	}
	return nil
}

// stopsInRow counts the windows that a guard stopped, from the last one back to one that was complete or had another
// end.
func (h *history) stopsInRow(last time.Time) (n int) {
	if h == nil {
		return 0
	}
	before := map[time.Time]time.Time{}
	for earlier, later := range h.after {
		before[later] = earlier
	}
	for range len(h.windows) {
		w := h.windows[last]
		if w == nil || w.stop == nil || w.complete() {
			break
		}
		n++
		earlier, resumed := before[last]
		if !resumed {
			break
		}
		last = earlier
	}
	return n
}
