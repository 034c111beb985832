package watchdog

import (
	"context"
	"fmt"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/driver"
	"github.com/seed62658d38/watchdog/internal/ledger"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A Charge is what [Watchdog.Admit] charged for a call: settle it with what the call used, or void it if nothing was
// sent. One that is neither stays charged. It can be copied, and its methods are safe for concurrent use: the first
// that is called on any copy counts, and the others change nothing. The zero value is of no run and counts nothing.
type Charge struct {
	of *account
	id ledger.ID
}

// Admit charges the run and those around it with the most that a call can use, before it is made. If that does not fit
// in a limit, the error is a [*Refused], nothing is charged and the call must not be made; the limit has tripped then.
// So no limit is exceeded by more than what a provider bills above an admission, however many goroutines and layers
// share it. Another process that has the run counts by itself, see [Spend].Used.
//
// A call that is made again under a key is charged once: Admit returns the charge that it has, also after it was
// settled, and charges it again if it was voided. A run remembers the keys of its open charges; of those that were
// settled, a session and its layers remember the last 1,024 together. Keys are those of one Watchdog: a layer that
// begins again, and a run that is attached again, have none, and charge a call again. The empty key is none: each call
// is another one, and costs no allocation.
//
// A call whose refusal is to end the run waits until that is recorded, at most the record timeout, and is admitted if
// another process has extended the limit by enough. A run that is only observed refuses nothing.
//
// The error wraps [ErrInvalid] for an amount that is negative, has another currency than the run, or is more than was
// admitted under the key; [ErrEnded] if the run has ended; or the cause of ctx if that is done. On a nil Watchdog, and
// if the run is disabled, nothing is counted.
func (w *Watchdog) Admit(ctx context.Context, key string, most Amount) (Charge, error) {
	if w == nil || w.r.Node.Disabled {
		return Charge{}, nil
	}
	if err := w.r.checkCall(key, &most); err != nil {
		return Charge{}, err
	}
	var c admission // set field by field: it is large
	c.r, c.call.Key, c.call.Currency = &w.r, key, most.Cost.Currency
	most.setUse(&c.call.Use)
	if err := c.admit(ctx); err != nil {
		return Charge{}, err
	}
	return Charge{c.of, c.out.ID}, nil
}

func (r *run) checkCall(key string, most *Amount) error {
	if flaw := most.flaw(); flaw != "" {
		return r.invalidCall("amount", flaw)
	}
	if flaw := event.Flaw(key, event.MaxAggregateID); flaw != "" && key != "" {
		return r.invalidCall("key", "it "+flaw)
	}
	return nil
}

func (r *run) invalidCall(what, flaw string) error {
	return fmt.Errorf("%w %s of a call in run %s: %s", ErrInvalid, what, r.Node.Run, flaw)
}

type admission struct {
	r    *run
	of   *account // of the run
	call ledger.Call
	out  ledger.Outcome
}

func (c *admission) admit(ctx context.Context) error {
	for {
		err := c.try(ctx)
		if err == nil || c.out.Did != ledger.Refused || !c.extendedMeanwhile(ctx) {
			return err
		}
	}
}

// try tries to charge the call.
func (c *admission) try(ctx context.Context) (err error) {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("admit a call in run %s: %w", c.r.Node.Run, context.Cause(ctx))
	case c.r.ended():
		return fmt.Errorf("admit a call in run %s: %w: %w", c.r.Node.Run, ErrEnded, c.r.Cause())
	}
	c.of = c.r.accountOf()
	in := c.of.in
	in.tree.Lock()
	c.of.Admit(&c.call, &c.out)
	if c.out.Did != ledger.Charged {
		err = c.err()
	}
	var k driver.Work
	if c.out.Look {
		c.of.look(&k)
	}
	in.tree.Unlock()
	k.Pass(in.tree, k.At)
	return err
}

// err is why the call was not charged. The caller holds the tree.
func (c *admission) err() error {
	switch c.out.Did {
	case ledger.Flawed:
		return fmt.Errorf("admit a call in run %s: %w amount: %s", c.r.Node.Run, ErrInvalid, c.out.Why.Flaw)
	case ledger.Closed:
		_, r := c.inTheWay()
		return fmt.Errorf("admit a call in run %s: %w: %w", c.r.Node.Run, ErrEnded, r.Cause())
	case ledger.Refused:
		a, _ := c.inTheWay()
		r := &Refused{Usage: a.usageOf(a.Spend.Use(c.out.Why.Limit))}
		r.Needed = a.Spend.Limits[c.out.Why.Limit].Of(&c.call.Use)
		return r
	}
	return nil
}

// inTheWay is the run that the call is not admitted in, with its account: this one, or one around it.
func (c *admission) inTheWay() (a *account, r *run) {
	for a, r = c.of, c.r; &a.Account != c.out.Why.Of; a, r = a.outer, r.around() {
	}
	return a, r
}

// extendedMeanwhile reports whether the limit that refused the call turned out to be extended by another process. That
// is known once the end of the run, which the refusal is, is in the store.
func (c *admission) extendedMeanwhile(ctx context.Context) bool {
	_, of := c.inTheWay()
	if recorded := of.Recorded(); recorded != nil {
		ctx, cancel := clocks.WithTimeout(ctx, of.Tree.Clock, of.Tree.Timeout)
		defer cancel()
		select {
		case <-recorded:
		case <-ctx.Done():
		}
	}
	of.Lock()
	defer of.Unlock()
	return c.out.TakeBack()
}

// Settle charges what the call has used in place of its admission. What it used beyond that is charged, too, and trips
// the limit that it exceeds. It counts whenever it comes, for [Watchdog.Usage] also after [Watchdog.Close]. The error
// wraps [ErrInvalid] for an amount that is negative or has another currency; then the admission stays charged.
func (c Charge) Settle(used Amount) error {
	if c.of == nil {
		return nil
	}
	if flaw := used.flaw(); flaw != "" {
		return fmt.Errorf("%w amount of a call: %s", ErrInvalid, flaw)
	}
	var o ledger.Outcome
	var use verdict.Use
	used.setUse(&use)
	in := c.of.in
	in.tree.Lock()
	in.Settle(c.id, &use, used.Cost.Currency, &o)
	var k driver.Work
	if o.Look {
		c.of.look(&k)
	}
	in.tree.Unlock()
	k.Pass(in.tree, k.At)
	if o.Did == ledger.Flawed {
		return fmt.Errorf("%w amount: %s", ErrInvalid, o.Why.Flaw)
	}
	return nil
}

// Void takes the charge back. It is only for a call of which nothing was sent: what was sent may be billed. It never
// fails.
func (c Charge) Void() error {
	if c.of == nil {
		return nil
	}
	in := c.of.in
	in.tree.Lock()
	defer in.tree.Unlock()
	in.Void(c.id)
	return nil
}
