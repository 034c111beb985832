package session

import (
	"context"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
)

// A closing is a run whose end is to be written now.
type closing struct {
	end     Ending
	written chan struct{} // closed when that was tried
}

// Ended implements [watchdog.Keeper]. It writes the run's end into its row at once, in one statement with those of
// other runs that end at the same time, and returns when that is done. What fails is written by a later flush, and so
// is everything while the store is known to fail: then it does not wait. It does nothing for a run that is not
// kept, nor for one whose cancel is not recorded yet.
func (k *Keeper) Ended(ctx context.Context, w *watchdog.Watchdog) {
	r := k.kept(w.ID())
	if r == nil || r.run != w || w.Context().Err() == nil || k.isDown() {
		return
	}
	c := closing{k.endOf(r), make(chan struct{})}
	if c.end.Status == Cancelled && !handle.Of(w.Context()).Recorded(false) {
		return
	}
	if k.enqueue(c) {
		go k.writeClosing(context.WithoutCancel(ctx))
	}
	select {
	case <-c.written:
	case <-ctx.Done():
	}
}

// enqueue reports whether the caller has to start the goroutine that writes.
func (k *Keeper) enqueue(c closing) (first bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closing = append(k.closing, c)
	first, k.ending = !k.ending, true
	return first
}

// writeClosing writes ends until there are no more.
func (k *Keeper) writeClosing(ctx context.Context) {
	for {
		all := k.takeClosing()
		if len(all) == 0 {
			return
		}
		ends := make([]Ending, len(all))
		for i, c := range all {
			ends[i] = c.end
		}
		_ = k.end(ctx, ends) // the next flush tries again, and logs that the store fails
		for _, c := range all {
			close(c.written)
		}
	}
}

func (k *Keeper) takeClosing() []closing {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := k.closing
	k.closing, k.ending = nil, len(all) > 0
	return all
}
