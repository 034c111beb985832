package watchdog

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/ledger"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// AdmitWithin is [Watchdog.Admit] for a call that can be made smaller, such as one of a model whose maximum of output
// can be lowered. It charges the most that fits between least and most, and returns that: the call must use no more. In
// between, all amounts grow from least to most together; tokens are rounded down and money up, so that a cost that
// grows with the tokens pays for those granted. The error is a [*Refused] if not even least fits, and that is the
// limit's trip.
//
// With a wait, a call for which there is less room than a quarter of the way from least to most waits for the calls of
// the session that are under way, if there would be more room should they use nothing: until they are settled or
// voided, at most that long. Then it takes what there is. Calls that wait are admitted in the order in which they came;
// Admit, and AdmitWithin without a wait, do not stand in that line. A call that still does not fit after the wait is no
// trip: the error wraps [context.DeadlineExceeded]. One whose ctx is done leaves the line, and nothing is charged. A
// wait costs one timer and no goroutine.
//
// A call that is made again under its key gets what it was granted first. Besides the errors of Admit, it wraps
// [ErrInvalid] if least is more than most in anything, if the two differ in their currency, tool or result, or if wait
// is negative. A run that is only observed, one that is disabled and a nil Watchdog grant the most.
func (w *Watchdog) AdmitWithin(
	ctx context.Context, key string, least, most Amount, wait time.Duration,
) (Charge, Amount, error) {
	if w == nil || w.r.Node.Disabled {
		return Charge{}, most, nil
	}
	if err := w.r.checkRange(key, &least, &most, wait); err != nil {
		return Charge{}, Amount{}, err
	}
	size := ledger.Range{Waits: wait > 0}
	least.setUse(&size.Least)
	most.setUse(&size.Most)
	c := admission{r: &w.r, call: ledger.Call{Key: key, Currency: most.Cost.Currency, Range: &size}}
	admit := c.admit
	if wait > 0 {
		admit = func(ctx context.Context) error { return c.admitInLine(ctx, wait) }
	}
	if err := admit(ctx); err != nil {
		return Charge{}, Amount{}, err
	}
	most.setCounts(&c.call.Use)
	return Charge{c.of, c.out.ID}, most, nil
}

func (r *run) checkRange(key string, least, most *Amount, wait time.Duration) error {
	if err := r.checkCall(key, least, most); err != nil {
		return err
	}
	if wait < 0 {
		return r.invalidCall("wait", fmt.Sprintf("it is %v; use a positive duration, or 0 for none", wait))
	}
	if least.Tool != most.Tool || least.Result != most.Result ||
		least.Cost.Currency != most.Cost.Currency && least.Cost.Micros > 0 {
		return r.invalidCall("least", "its currency, tool and result have to be those of the most")
	}
	var c, less verdict.Counts
	most.countInto(&c)
	least.countInto(&less)
	c.Sub(&less)
	if name, n := negativeCount(&c); n < 0 {
		return r.invalidCall("least", fmt.Sprintf("its %s is %d more than that of the most", name, -n))
	}
	return nil
}

// A line is the calls of a session that wait for others, in the order in which they came. Its tree guards it.
type line []chan struct{}

// callNext has the first of the line try again. The caller holds the tree.
func (l line) callNext() {
	if len(l) > 0 {
		select {
		case l[0] <- struct{}{}:
		default: // it is called already
		}
	}
}

// admitInLine admits the call when its turn has come, and there is room or nothing to wait for.
func (c *admission) admitInLine(ctx context.Context, longest time.Duration) error {
	turn, leave := c.r.accountOf().in.stand()
	defer leave()
	waiting, cancel := clocks.WithTimeout(ctx, c.r.Tree.Clock, longest)
	defer cancel()
	for {
		select {
		case <-turn:
		case <-c.r.Inner().Done():
		case <-waiting.Done():
			c.call.Range.Late = true
		}
		c.call.Again()
		c.out = ledger.Outcome{}
		err := c.admit(ctx)
		switch {
		case c.out.Did != ledger.Held:
			return err
		case c.call.Range.Late:
			return fmt.Errorf("admit a call in run %s: %w: %w after %v; try again when they have ended",
				c.r.Node.Run, err, context.DeadlineExceeded, longest)
		}
	}
}

// stand joins the line. The channel tells that it is one's turn to try.
func (in *sessionLedger) stand() (turn chan struct{}, leave func()) {
	turn = make(chan struct{}, 1)
	in.tree.Lock()
	defer in.tree.Unlock()
	in.line = append(in.line, turn)
	if len(in.line) == 1 {
		in.line.callNext()
	}
	return turn, func() {
		in.tree.Lock()
		defer in.tree.Unlock()
		in.line = slices.DeleteFunc(in.line, func(one chan struct{}) bool { return one == turn })
		in.line.callNext()
	}
}
