package watchdog

import (
	"context"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/clocks"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/ledger"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/verdict"
)

// A Charge is what [Watchdog.Admit] charged for a call: settle it with what the call used, or void it if nothing was
// sent. One that is neither stays charged. It can be copied, and its methods are safe for concurrent use: the first
// that is called on any copy counts, and the others change nothing. The zero value is of no run and counts nothing.
type Charge struct {
	of *account
	id ledger.ID
}

// Admit charges the run, those around it and its scopes with the most that a call can use, before it is made. If that
// does not fit in a limit, the error is a [*Refused], nothing is charged and the call must not be made; the limit has
// tripped then. So no limit is exceeded by more than what a provider bills above an admission, however many goroutines,
// layers and processes share it.
//
// A call that is made again under a key is charged once: Admit returns the charge that it has, also after it was
// settled, and charges it again if it was voided. A run remembers the keys of its open charges; of those that were
// settled, a session and its layers remember the last 1,024 together. Whatever the store, keys are those of one
// Watchdog: a layer that begins again, and a run that is attached again, have none, and charge a call again. The empty
// key is none: each call is another one, and costs no allocation.
//
// A limit that is kept in a [SpendStore] is drawn on in memory. Only a call that needs a new [Slice] waits for the
// store, at most the record timeout; if that fails, the call is refused with the store's error, and no limit has
// tripped. One whose refusal is to end the run waits as long, and is admitted if another process has extended the limit
// by enough. A run that is only observed refuses nothing: what the store does not grant is charged when it can be.
//
// The error wraps [ErrInvalid] for an amount that is negative, has another currency than the run, or is more than was
// admitted under the key; [ErrEnded] if the run has ended; or the cause of ctx if that is done. On a nil Watchdog, and
// if the run is disabled, nothing is counted.
func (w *Watchdog) Admit(ctx context.Context, key string, most Amount) (Charge, error) {
	if w == nil || w.disabled {
		return Charge{}, nil
	}
	if flaw := most.flaw(); flaw != "" {
		return Charge{}, fmt.Errorf("%w amount of a call in run %s: %s", ErrInvalid, w.id, flaw)
	}
	if flaw := keyFlaw(key); flaw != "" {
		return Charge{}, fmt.Errorf("%w key of a call in run %s: it %s", ErrInvalid, w.id, flaw)
	}
	var o ledger.Outcome
	call := ledger.Call{Key: key, Currency: most.Cost.Currency}
	most.setUse(&call.Use)
	err := w.admit(ctx, &call, &most, &o)
	if o.Did == ledger.Lacking {
		err = w.admitLacking(ctx, &call, &most, &o)
	}
	switch {
	case err == nil:
		return Charge{w.account.Load(), o.ID}, nil
	case o.Did == ledger.Refused && w.extendedMeanwhile(ctx, &o):
		return w.Admit(ctx, key, most)
	}
	return Charge{}, err
}

// admit tries to charge the call. It does not wait for the store: what that has to be asked for is in the outcome.
func (w *Watchdog) admit(ctx context.Context, call *ledger.Call, most *Amount, o *ledger.Outcome) (err error) {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("admit a call in run %s: %w", w.id, context.Cause(ctx))
	case w.isDone():
		return fmt.Errorf("admit a call in run %s: %w: %w", w.id, ErrEnded, w.cause())
	}
	a := w.accountOf()
	a.in.lock()
	if a.Admit(call, o); o.Did == ledger.Refused {
		err = w.refused(o.Why, call)
	}
	a.in.unlock()
	if w.trace != nil && (o.Did == ledger.Charged || o.Did == ledger.Refused) {
		amount := *most
		a.traceCall(Signal{
			Kind: SignalAdmit, Serial: o.ID.Serial(), Amount: &amount, NotMade: o.Did == ledger.Refused,
		})
	}
	if o.Look {
		a.look(clocks.Now(w.clock.other))
	}
	if o.Owes {
		w.cover()
	}
	switch o.Did {
	case ledger.Flawed:
		err = fmt.Errorf("admit a call in run %s: %w amount: %s", w.id, ErrInvalid, o.Why.Flaw)
	case ledger.Closed:
		err = fmt.Errorf("admit a call in run %s: %w: %w", w.id, ErrEnded, w.runOf(o.Why.Of).cause())
	}
	return err
}

// refused is the error of a call that does not fit in a limit. The caller holds the ledger.
func (w *Watchdog) refused(why *ledger.Why, call *ledger.Call) *Refused {
	spend := why.Of.Spend
	r := &Refused{Usage: w.runOf(why.Of).usageOf(spend.Use(why.Limit))}
	r.Needed = spend.Limits[why.Limit].Most(&call.Use)
	return r
}

// runOf is the run with the account: this one, or one around it.
func (w *Watchdog) runOf(a *ledger.Account) *Watchdog {
	for &w.account.Load().Account != a {
		w = w.outer
	}
	return w
}

// admitLacking admits a call that lacks something of a shared limit.
func (w *Watchdog) admitLacking(
	ctx context.Context, call *ledger.Call, most *Amount, o *ledger.Outcome,
) (err error) {
	began := clocks.Now(w.clock.other)
	asking, cancel := clocks.WithTimeout(ctx, w.clock.other, w.recorder.timeout)
	defer cancel()
	for o.Did == ledger.Lacking {
		source := o.Why.Source
		*o = ledger.Outcome{}
		err = w.fetch(asking, call, source, began, o)
		call.Owes = err != nil && (o.Did == ledger.Refused || ctx.Err() == nil) && w.observeOnly
		if err != nil && !call.Owes {
			return err
		}
		// differs: what is left of windows before is given back where the slice is taken
		err = w.admit(ctx, call, most, o)
	}
	return err
}

// fetch takes a slice of what the call lacks of a shared limit, or waits for one that is being taken. It returns a
// [*Refused] if the call does not fit in the limit, or why the store could not be asked.
func (w *Watchdog) fetch(
	ctx context.Context, call *ledger.Call, source int, began time.Time, o *ledger.Outcome,
) error {
	in := w.accountOf().in
	in.lock()
	want := in.Wants(call, source)
	in.unlock()
	fits, err := in.sources[source].take(ctx, &w.recorder, &want)
	switch {
	case err != nil:
		return fmt.Errorf("admit a call in run %s: %w", w.id, err)
	case fits && !want.Force:
		return nil
	}
	in.lock()
	if in.NotGranted(call, source, o); o.Did == ledger.Refused {
		err = w.refused(o.Why, call)
	}
	in.unlock()
	if o.Look {
		in.session.look(began)
	}
	return err
}

// extendedMeanwhile reports whether the limit that refused a call turned out to be extended by another process. That is
// known once the end of the run, which the refusal is, is in the store.
func (w *Watchdog) extendedMeanwhile(ctx context.Context, o *ledger.Outcome) bool {
	of := w.runOf(o.Why.Of)
	of.mu.Lock()
	underway := of.trip
	of.mu.Unlock()
	if underway != nil {
		ctx, cancel := clocks.WithTimeout(ctx, w.clock.other, w.recorder.timeout)
		defer cancel()
		select {
		case <-underway.done:
		case <-ctx.Done():
		}
	}
	in := w.account.Load().in
	in.lock()
	defer in.unlock()
	return o.TakeBack()
}

// isDone reports whether the run has ended, or one around it.
func (w *Watchdog) isDone() bool {
	for v := w; ; v = v.outer {
		if v.inner.Err() != nil || v.outer == nil && v.parent != nil && v.parent.Err() != nil {
			return w.Context().Err() != nil
		}
		if v.outer == nil {
			return false
		}
	}
}

func keyFlaw(key string) string {
	if key == "" {
		return ""
	}
	return textFlaw(key, MaxAggregateID)
}

// Settle charges what the call has used in place of its admission. What it used beyond that is charged, too, and trips
// the limit that it exceeds. Until the run is closed it does not wait for a [SpendStore]: what that does not take is
// tried again at polls, and at last by [Watchdog.Close], which returns the error. The error of Settle wraps
// [ErrInvalid] for an amount that is negative or has another currency; then the admission stays charged.
//
// After Close it charges what was used beyond the admission, and waits for that at most the record timeout. If the
// store does not take it, Settle returns its error and can be called again, as Close can: however often it is tried, it
// counts once. In a window of a scope that is over by then it is charged nowhere. What was not used of the admission
// stays charged if the rest of its slice was given back.
func (c Charge) Settle(used Amount) error {
	if c.of == nil {
		return nil
	}
	if flaw := used.flaw(); flaw != "" {
		return fmt.Errorf("%w amount of a call: %s", ErrInvalid, flaw)
	}
	in := c.of.in
	session := in.session.run.Load()
	var o ledger.Outcome
	var use verdict.Use
	used.setUse(&use)
	in.lock()
	in.Settle(c.id, &use, used.Cost.Currency, &o)
	in.unlock()
	if o.Did == ledger.Settled && session.trace != nil {
		amount := used
		c.of.traceCall(Signal{Kind: SignalSettle, Serial: c.id.Serial(), Amount: &amount})
	}
	if o.Look {
		c.of.look(clocks.Now(session.clock.other))
	}
	switch {
	case o.Late:
		return in.settleLate()
	case o.Owes:
		session.cover()
	case o.Did == ledger.Flawed:
		return fmt.Errorf("%w amount: %s", ErrInvalid, o.Why.Flaw)
	}
	return nil
}

// Void takes the charge back. It is only for a call of which nothing was sent: what was sent may be billed. It never
// fails. After [Watchdog.Close] the store can stay charged with it, see [Charge.Settle].
func (c Charge) Void() error {
	if c.of == nil {
		return nil
	}
	c.of.in.lock()
	voided := c.of.in.Void(c.id)
	c.of.in.unlock()
	if voided {
		c.of.traceCall(Signal{Kind: SignalVoid, Serial: c.id.Serial()})
	}
	return nil
}
