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
	"github.com/seed62658d38/watchdog/internal/share"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// lock locks the tree, and all that the session draws on.
func (in *sessionLedger) lock() (s *share.Set) {
	in.tree.mu.Lock()
	s = in.shares.Load()
	s.Lock()
	return s
}

// openSpend has a session draw on what a store keeps of its limits, and learn what was used before.
func (r *run) openSpend(ctx context.Context, cfg *Config, found *fold.Window) error {
	store := cfg.spendStore()
	if store == nil || r.disabled || len(r.limits.Counts) == 0 && len(cfg.Scopes) == 0 || r.hasEnded() {
		return nil
	}
	a := r.accountOf()
	if err := a.share(r, cfg, store, found).Begin(ctx); err != nil {
		return fmt.Errorf("read what was spent: %w", err)
	}
	r.locked(a.learn)
	return nil
}

// share has the session draw on its limits. The run's keeper and its timer may look at them already.
func (a *account) share(r *run, cfg *Config, store SpendStore, found *fold.Window) *share.Set {
	t := r.tree
	by := share.Carrier{Clock: t.clock.other, Timeout: t.timeout, Inline: t.inline, Stopwatch: t.stopwatch}
	s := share.NewSet(by, &a.in.Ledger, &t.mu)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !cfg.forgets {
		window := found.SpendName()
		for _, tool := range toolsOf(r.limits.Counts) {
			name := r.node.SpendID(window, tool)
			s.Add(share.Own(keptLimit{store: store, scope: name, currency: r.limits.currency}), "", tool)
		}
	}
	for i := range cfg.Scopes {
		of := &cfg.Scopes[i]
		limits, currency := of.Spend.limits(of.Scope), of.Spend.Cost.Currency
		a.in.AddLimits(limits, currency)
		if of.Period == PeriodNone { // of others the events do not say in which of their windows something was asked
			r.node.RestoreScope(of.Scope, found)
		}
		for _, tool := range toolsOf(limits) {
			kept := keptLimit{store, toolScope(of.Scope, tool), of.Period, of.Zone, currency}
			s.Add(share.Open(kept), of.Scope, tool)
		}
	}
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

// coverAside has what was used beyond what was taken of the session's shared limits taken, so that others find it used,
// without waiting for it if there is another goroutine. What the store does not take is tried again by the run's lane
// and at the next poll.
func (in *sessionLedger) coverAside() {
	if s := in.drawn(); s != nil {
		_ = s.Cover(in.session.run.Load().tryLater)
	}
}

// drawn is what a session draws on, of a ledger that may be nil.
func (in *sessionLedger) drawn() *share.Set {
	if in == nil {
		return nil
	}
	return in.shares.Load()
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
	case s == nil || !first && !s.Owes():
		return nil
	}
	end := func() { _ = s.Settle() } // who closes hears of what is unpaid
	if first {
		end = func() { s.Close(a.logUnspent) }
	}
	if a.in.tree.inline {
		end()
		return nil
	}
	return bounded.Aside(end)
}

// logUnspent tells the log of what could not be given back.
func (a *account) logUnspent(l *share.Limit, err error) {
	bounded.Quietly(func() {
		a.run.Load().log().Error("what a run did not spend stays charged", "run", a.id, "scope", l.String(), "error", err)
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
