package watchdog

import (
	"context"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/driver"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/ledger"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
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

func (r *run) checkCall(key string, amounts ...*Amount) error {
	for _, a := range amounts {
		if flaw := a.flaw(); flaw != "" {
			return r.invalidCall("amount", flaw)
		}
	}
	if flaw := record.TextFlaw(key, MaxAggregateID); flaw != "" && key != "" {
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

// admit admits the call, and asks the store where it has to be asked.
func (c *admission) admit(ctx context.Context) error {
	for {
		err := c.try(ctx)
		if c.out.Did == ledger.Lacking {
			err = c.askStore(ctx)
		}
		if err == nil || c.out.Did != ledger.Refused || !c.extendedMeanwhile(ctx) {
			return err
		}
		c.call.Again()
		c.out = ledger.Outcome{}
	}
}

// askStore admits a call that lacks something of a shared limit.
func (c *admission) askStore(ctx context.Context) (err error) {
	began := clocks.Now(c.r.Tree.Clock)
	asking, cancel := clocks.WithTimeout(ctx, c.r.Tree.Clock, c.r.Tree.Timeout)
	defer cancel()
	for c.out.Did == ledger.Lacking {
		source := c.out.Why.Source
		c.out = ledger.Outcome{}
		err = c.fetch(asking, source, began)
		c.call.Owes = err != nil && (c.out.Did == ledger.Refused || ctx.Err() == nil) && c.r.Node.ObserveOnly
		if err != nil && !c.call.Owes {
			return err
		}
		err = c.try(ctx)
	}
	return err
}

// try tries to charge the call. It does not wait for the store: what that has to be asked for is in the outcome.
func (c *admission) try(ctx context.Context) (err error) {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("admit a call in run %s: %w", c.r.Node.Run, context.Cause(ctx))
	case c.r.ended():
		return fmt.Errorf("admit a call in run %s: %w: %w", c.r.Node.Run, ErrEnded, c.r.Cause())
	}
	c.of = c.r.accountOf()
	in := c.of.in
	s := in.lock()
	c.of.Admit(&c.call, &c.out)
	s.Unlock()
	if c.out.Did != ledger.Charged {
		err = c.err()
	}
	var k driver.Work
	c.trace(&k)
	if c.out.Look {
		c.of.look(&k)
		in.line.callNext() // a reserve can be unlocked now
	}
	in.tree.Unlock()
	k.DoAll(in.tree)
	if c.out.Owes {
		in.session.run.Load().CoverAside()
	}
	return err
}

// trace traces the call if it was charged or refused. The caller holds the tree.
func (c *admission) trace(k *driver.Work) {
	s := verdict.Signal{Kind: verdict.SignalAdmit, Serial: c.out.ID.Serial(), Use: c.call.Use}
	switch c.out.Did {
	case ledger.Charged:
		c.of.traceCall(k, nil, s, c.call.Currency)
	case ledger.Refused:
		_, r := c.inTheWay()
		s.Refused = true
		c.of.traceCall(k, &r.Node, s, c.call.Currency)
	}
}

// err is why the call was not charged. The caller holds the tree.
func (c *admission) err() error {
	switch c.out.Did {
	case ledger.Held:
		return handle.ErrHeld
	case ledger.Flawed:
		return fmt.Errorf("admit a call in run %s: %w amount: %s", c.r.Node.Run, ErrInvalid, c.out.Why.Flaw)
	case ledger.Closed:
		_, r := c.inTheWay()
		return fmt.Errorf("admit a call in run %s: %w: %w", c.r.Node.Run, ErrEnded, r.Cause())
	case ledger.Refused:
		a, _ := c.inTheWay()
		r := &Refused{Usage: a.usageOf(a.Spend.Use(c.out.Why.Limit))}
		r.Needed = a.Spend.Limits[c.out.Why.Limit].Most(&c.call.Use)
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

// fetch takes a slice of what the call lacks of a shared limit, or waits for one that is being taken. It returns a
// [*Refused] if the call does not fit in the limit, or why the store could not be asked.
func (c *admission) fetch(ctx context.Context, source int, began time.Time) error {
	in := c.of.in
	s := in.lock()
	want := in.Wants(&c.call, source)
	s.Unlock()
	in.tree.Unlock()
	fits, err := s.Take(ctx, source, &want)
	switch {
	case err != nil:
		return fmt.Errorf("admit a call in run %s: %w", c.r.Node.Run, err)
	case fits && !want.Force:
		return nil
	}
	in.lock()
	in.NotGranted(&c.call, source, &c.out)
	s.Unlock()
	err = c.err()
	var k driver.Work
	if !c.r.Node.ObserveOnly { // else it is charged all the same
		c.trace(&k)
	}
	if c.out.Look {
		in.session.look(&k)
		in.line.callNext() // a reserve can be unlocked now
	}
	in.tree.Unlock()
	k.Do(in.tree, began)
	return err
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
	var o ledger.Outcome
	var use verdict.Use
	used.setUse(&use)
	said := use.Tool
	in := c.of.in
	s := in.lock()
	in.Settle(c.id, &use, used.Cost.Currency, &o)
	s.Unlock()
	var k driver.Work
	if o.Did == ledger.Settled {
		use.Tool = said
		told := verdict.Signal{Kind: verdict.SignalSettle, Serial: c.id.Serial(), Use: use}
		c.of.traceCall(&k, nil, told, used.Cost.Currency)
	}
	if o.Look {
		c.of.look(&k)
	}
	in.line.callNext()
	in.tree.Unlock()
	k.DoAll(in.tree)
	switch {
	case o.Late:
		if err := s.Settle(); err != nil {
			return fmt.Errorf("settle a call of run %s, which is closed: %w; call Settle again", in.session.id, err)
		}
	case o.Owes:
		in.session.run.Load().CoverAside()
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
	in := c.of.in
	s := in.lock()
	open := in.Void(c.id)
	s.Unlock()
	var k driver.Work
	if open {
		c.of.traceCall(&k, nil, verdict.Signal{Kind: verdict.SignalVoid, Serial: c.id.Serial()}, "")
	}
	in.line.callNext()
	in.tree.Unlock()
	k.DoAll(in.tree)
	return nil
}
