package watchdog

import (
	"context"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A Charge is what [Watchdog.Admit] charged for a call: settle it with what the call used, or void it if nothing was
// sent. One that is neither stays charged. It can be copied, and its methods are safe for concurrent use: the first
// that is called on any copy counts, and the others change nothing. The zero value is of no run and counts nothing.
type Charge struct {
	book *book
	at   int
	gen  uint64
}

// Admit charges the run, those around it and its scopes with the most that a call can use, before it is made. If that
// does not fit in a limit, the error is a [*Refused], nothing is charged and the call must not be made; the limit has
// tripped then. So no limit is exceeded by more than what a provider bills above an admission, however many goroutines,
// layers and processes share it.
//
// A call that is made again under a key is charged once: Admit returns the charge that it has, also after it was
// settled, and charges it again if it was voided. A run remembers the keys of open charges and of the last 1,024 that
// were settled. The empty key is none: each call is another one, and costs no allocation.
//
// A limit that is kept in a [SpendStore] is drawn on in memory. Only a call that needs a new [Slice] waits for the
// store, at most the record timeout; if that fails, the call is refused with the store's error, and no limit has
// tripped. A run that is only observed refuses nothing: what the store does not grant is charged when it can be.
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
	use := most.use()
	charge, missing, err := w.admit(ctx, key, &most, &use, &admission{})
	if missing == nil {
		return charge, err
	}
	return w.admitMissing(ctx, key, most, use, missing)
}

// admitMissing admits a call that lacks something of a pool.
func (w *Watchdog) admitMissing(
	ctx context.Context, key string, most Amount, use verdict.Use, missing *shortage,
) (c Charge, err error) {
	began := clocks.Now(w.clock.other)
	asking, cancel := clocks.WithTimeout(ctx, w.clock.other, w.recorder.timeout)
	defer cancel()
	how := admission{}
	for missing != nil {
		refused, look, err := missing.fetch(asking, &w.recorder)
		if look {
			missing.of.w.lookAroundSince(began)
		}
		how.before, how.owes = missing, (refused != nil || err != nil && ctx.Err() == nil) && w.observeOnly
		switch {
		case how.owes:
		case err != nil:
			return Charge{}, fmt.Errorf("admit a call in run %s: %w", w.id, err)
		case refused != nil:
			return Charge{}, refused
		}
		how.before.draw.pool.giveBackOverdue(asking, &w.recorder)
		if c, missing, err = w.admit(ctx, key, &most, &use, &how); err != nil {
			return Charge{}, err
		}
	}
	return c, nil
}

// admit tries to charge the call. It returns what is missing if the store has to be asked first.
func (w *Watchdog) admit(
	ctx context.Context, key string, most *Amount, use *verdict.Use, how *admission,
) (c Charge, missing *shortage, err error) {
	switch {
	case ctx.Err() != nil:
		return c, nil, fmt.Errorf("admit a call in run %s: %w", w.id, context.Cause(ctx))
	case w.isDone():
		return c, nil, fmt.Errorf("admit a call in run %s: %w: %w", w.id, ErrEnded, w.cause())
	}
	var did deed
	c = w.accountOf().admitAll(key, most, use, how, &did)
	if w.trace != nil && (did.fresh || did.refused != nil) {
		amount := *most
		w.traceCall(Signal{Kind: SignalAdmit, Serial: c.serial(), Amount: &amount, NotMade: did.refused != nil})
	}
	if did.look {
		w.lookAround()
	}
	if did.owes {
		w.cover()
	}
	switch {
	case did.err != nil:
		return Charge{}, nil, fmt.Errorf("admit a call in run %s: %w", w.id, did.err)
	case did.refused != nil:
		return Charge{}, nil, did.refused
	}
	return c, did.missing, nil
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
	if c.book == nil {
		return nil
	}
	if flaw := used.flaw(); flaw != "" {
		return fmt.Errorf("%w amount of a call: %s", ErrInvalid, flaw)
	}
	use := used.use()
	var did deed
	w := c.book.settle(c, &used, &use, &did)
	if w != nil && w.trace != nil {
		amount := used
		w.traceCall(Signal{Kind: SignalSettle, Serial: c.serial(), Amount: &amount})
	}
	if did.look {
		w.lookAround()
	}
	switch {
	case did.late:
		return c.book.settleLate()
	case did.owes:
		w.cover()
	}
	return did.err
}

// Void takes the charge back. It is only for a call of which nothing was sent: what was sent may be billed. It never
// fails. After [Watchdog.Close] the store can stay charged with it, see [Charge.Settle].
func (c Charge) Void() error {
	if c.book != nil {
		c.book.void(c).traceCall(Signal{Kind: SignalVoid, Serial: c.serial()})
	}
	return nil
}

// lookAround has what a charge did to the limits judged, of the run and those around it.
func (w *Watchdog) lookAround() { w.lookAroundSince(clocks.Now(w.clock.other)) }

// lookAroundSince is lookAround for a caller that has waited since began. Without another goroutine it waits no longer
// than the timeout since then for all of them: what is not recorded by then is kept and tried again.
func (w *Watchdog) lookAroundSince(began time.Time) {
	for ; w != nil; w = w.outer {
		w.mu.Lock()
		found := w.lookAndArm()
		w.mu.Unlock()
		w.settleSince(found, began)
	}
}

// Usage returns how far each counted limit of the run is used, in the order of the fields of [Spend], and those of its
// scopes after its own. It is nil if there is none, and for a nil Watchdog.
func (w *Watchdog) Usage() []Usage {
	if w == nil {
		return nil
	}
	a := w.account.Load()
	if a == nil {
		return nil
	}
	a.book.mu.Lock()
	defer a.book.mu.Unlock()
	a.learnAll()
	if len(a.spend.Limits) == 0 {
		return nil
	}
	all := make([]Usage, 0, len(a.spend.Limits))
	for i := range a.spend.Limits {
		all = append(all, w.usageOf(a.spend.Use(i)))
	}
	return all
}
