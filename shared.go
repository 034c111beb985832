package watchdog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/ledger"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/share"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// Shares are what a session draws on that a store keeps. They do not change, and can be nil: nothing.
type shares struct {
	by     share.Carrier
	limits []*share.Limit // in the ledger's order
	locks  []*share.Limit // each of them once, in the order in which they are locked
}

func (s *shares) lock() {
	if s != nil {
		for _, l := range s.locks {
			l.Lock()
		}
	}
}

func (s *shares) unlock() {
	if s != nil {
		for _, l := range s.locks {
			l.Unlock()
		}
	}
}

// lock locks the tree, and all that the session draws on.
func (in *sessionLedger) lock() (s *shares) {
	in.tree.mu.Lock()
	s = in.shares.Load()
	s.lock()
	return s
}

// openSpend has a session draw on what a store keeps of its limits, and learn what was used before.
func (r *run) openSpend(ctx context.Context, cfg *Config, found *fold.Window) error {
	store := cfg.spendStore()
	if store == nil || r.disabled || len(r.limits.Counts) == 0 && len(cfg.Scopes) == 0 || r.hasEnded() {
		return nil
	}
	a := r.accountOf()
	s := a.share(r, cfg, store, found)
	ctx, cancel := s.by.Context(ctx)
	defer cancel()
	for i, l := range s.limits {
		a.in.tree.mu.Lock()
		limit := a.in.Open(i)
		a.in.tree.mu.Unlock()
		if err := l.Begin(ctx, &s.by, &limit); err != nil {
			return fmt.Errorf("read what was spent: %w", err)
		}
	}
	a.in.tree.mu.Lock()
	defer a.in.tree.mu.Unlock()
	a.learn()
	return nil
}

// share has the session draw on its limits. The run's keeper and its timer may look at them already.
func (a *account) share(r *run, cfg *Config, store SpendStore, found *fold.Window) *shares {
	t := r.tree
	s := &shares{by: share.Carrier{Clock: t.clock.other, Timeout: t.timeout, Inline: t.inline, Stopwatch: t.stopwatch}}
	add := func(l *share.Limit, scope, tool string) {
		s.limits = append(s.limits, l)
		a.in.AddSource(&l.Held, scope, tool)
	}
	a.in.tree.mu.Lock()
	defer a.in.tree.mu.Unlock()
	if !cfg.forgets {
		window := found.SpendName()
		for _, tool := range toolsOf(r.limits.Counts) {
			name := r.node.SpendID(window, tool)
			add(share.Own(keptLimit{store: store, scope: name, currency: r.limits.currency}), "", tool)
		}
	}
	for i := range cfg.Scopes {
		of := &cfg.Scopes[i]
		limits, currency := of.Spend.limits(of.Scope), of.Spend.Cost.Currency
		a.in.AddLimits(limits, currency)
		if of.Period == PeriodNone { // of others the events do not say in which of their windows something was asked
			machine.RestoreScope(a.Spend, of.Scope, r.limits.Ladders, found)
		}
		for _, tool := range toolsOf(limits) {
			kept := keptLimit{store, toolScope(of.Scope, tool), of.Period, of.Zone, currency}
			add(share.Open(kept), of.Scope, tool)
		}
	}
	s.locks = share.InOrder(s.limits)
	a.in.shares.Store(s)
	return s
}

// toolsOf are the tools that the limits are of which add up, each once; the empty one is all.
func toolsOf(limits []verdict.CountLimit) (tools []string) {
	for _, l := range limits {
		if l.Kind < verdict.KindCallInput && !slices.Contains(tools, l.Tool) {
			tools = append(tools, l.Tool)
		}
	}
	return tools
}

func (t *tree) stopwatch() func() time.Duration {
	c := newRunClock(t.clock.other, clocks.Now(t.clock.other), 0)
	return c.elapsed
}

// What a call used beyond its admission is owed until the store has taken it. While the run is open that is tried again
// at polls. After the end nobody polls: whoever settles, or closes again, waits for the store and hears of its error.

// coverAside has what was used beyond what was taken of the session's shared limits taken, so that others find it used,
// without waiting for it if there is another goroutine. What the store does not take is tried again by the run's lane
// and at the next poll.
func (in *sessionLedger) coverAside() {
	if in.drawn() != nil {
		_ = in.cover(in.session.run.Load().tryLater)
	}
}

// cover is coverAside for a lane, which gives no function to call after it failed: it waits, and returns an error if
// the store did not take something.
func (in *sessionLedger) cover(failed func()) (err error) {
	if s := in.drawn(); s != nil {
		ctx, cancel := s.by.Context(context.Background())
		defer cancel()
		for i := 0; i < len(s.limits) && err == nil; i++ {
			err = s.limits[i].Cover(ctx, &s.by, failed)
		}
	}
	return err
}

// drawn is what a session draws on, of a ledger that may be nil.
func (in *sessionLedger) drawn() *shares {
	if in == nil {
		return nil
	}
	return in.shares.Load()
}

// uncovered reports whether runs used something of the session's shared limits that the store has not taken.
func (in *sessionLedger) uncovered() bool {
	s := in.drawn()
	return s != nil && slices.ContainsFunc(s.limits, func(l *share.Limit) bool { return l.Owed() != verdict.Counts{} })
}

// owing are the limits of which calls of the session have used something that the store has not taken.
func (in *sessionLedger) owing() (all []*share.Limit) {
	if in.drawn() == nil {
		return nil
	}
	s := in.lock()
	defer in.tree.mu.Unlock()
	defer s.unlock()
	for i, l := range s.limits {
		if in.Owes(i) {
			all = append(all, l)
		}
	}
	return all
}

// settleLate takes what calls of the closed run used beyond their admissions.
func (in *sessionLedger) settleLate() error {
	in.giveBack(in.shares.Load(), false)
	if err := in.unpaid(); err != nil {
		return fmt.Errorf("settle a call of run %s, which is closed: %w; call Settle again", in.session.id, err)
	}
	return nil
}

// unpaid returns an error that says what the session has used and the store has not taken, nil if there is nothing.
func (in *sessionLedger) unpaid() (errs error) {
	for _, l := range in.owing() {
		errs = errors.Join(errs, l.Unpaid(nil))
	}
	return errs
}

// close takes what is owed, gives back what is left of the run's slices, and admits nothing any more. It returns a
// channel that is closed when that is done, nil if there is nothing to do.
func (a *account) close() (done <-chan struct{}) {
	if a == nil {
		return nil
	}
	a.in.tree.mu.Lock()
	first := a.Close()
	a.in.tree.mu.Unlock()
	s := a.in.shares.Load()
	switch {
	case a.outer != nil:
		a.run.Store(nil)
		return nil
	case s == nil || !first && len(a.in.owing()) == 0:
		return nil
	case s.by.Inline:
		a.in.giveBack(s, first)
		return nil
	}
	return aside(func() { a.in.giveBack(s, first) })
}

// giveBack takes what is owed and, once, gives back what nobody draws on any more, in one record timeout.
func (in *sessionLedger) giveBack(s *shares, first bool) {
	ctx, cancel := s.by.Context(context.Background())
	defer cancel()
	owing := in.owing()
	each(s.limits, func(l *share.Limit) {
		switch {
		case first && l.Leave():
			if err := l.Close(ctx, &s.by); err != nil {
				callLog(func() {
					in.session.run.Load().log().Error("what a run did not spend stays charged", "run", in.session.id,
						"scope", l.String(), "error", err)
				})
			}
		case slices.Contains(owing, l):
			_ = l.Settle(ctx, &s.by) // Close returns what is owed then
		}
	})
}

// A keptLimit is a limit that a store keeps, as package share asks for it.
type keptLimit struct {
	store    SpendStore
	scope    string
	period   Period
	zone     string
	currency string
}

func (k keptLimit) Take(ctx context.Context, s *ledger.Slice) (ledger.Grant, error) {
	g, err := storeErr(bounded.Here(func() (Grant, error) {
		return k.store.Take(ctx, Slice{
			ID: s.ID, Scope: k.scope, Period: k.period, Zone: k.zone, Currency: k.currency,
			Least: totalsOf(s.Least), Limit: totalsOf(s.Limit), Force: s.Force,
		})
	}))
	return ledger.Grant{
		Fits: g.Fits, Granted: g.Granted.counts(), Charged: g.Charged.counts(), Window: g.Window, Ends: g.Ends,
	}, err
}

func (k keptLimit) Return(ctx context.Context, one ledger.Return) error {
	_, err := storeErr(bounded.Here(func() (nothing, error) {
		return nothing{}, k.store.Return(ctx, one.ID, totalsOf(one.Unused))
	}))
	return err
}

func (k keptLimit) MayBeCharged(err error) bool { return !errors.Is(err, ErrInvalid) }

func (k keptLimit) AnswersAtOnce() bool {
	_, memory := k.store.(*Memory)
	return memory
}

func (k keptLimit) String() string { return k.scope }

func (k keptLimit) Amounts(c *verdict.Counts) string {
	var parts []string
	for kind, n := range c {
		switch {
		case n == 0:
		case verdict.Kind(kind) == verdict.KindCost:
			parts = append(parts, Usage{Currency: k.currency}.amount(n))
		default:
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(verdict.Kind(kind).String(), "_", " ")))
		}
	}
	return strings.Join(parts, ", ")
}
