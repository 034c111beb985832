package watchdog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/journal"
	"github.com/seed62658d38/watchdog/internal/ledger"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/share"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// openSpend has a session draw on what a store keeps of its limits, and learn what was used before.
func (r *run) openSpend(ctx context.Context, cfg *Config, found *fold.Window) error {
	store := cfg.spendStore()
	if store == nil || r.Node.Disabled || len(r.limits.Counts) == 0 && len(cfg.Scopes) == 0 || r.Over() {
		return nil
	}
	a := r.accountOf()
	if err := a.share(r, cfg, store, found).Begin(ctx); err != nil {
		return fmt.Errorf("read what was spent: %w", err)
	}
	r.Locked(a.learn)
	return nil
}

// share has the session draw on its limits. The run's keeper and its timer may look at them already.
func (a *account) share(r *run, cfg *Config, store SpendStore, found *fold.Window) *share.Set {
	t := r.Tree
	by := share.Carrier{Clock: t.Clock, Timeout: t.Timeout, Inline: t.Inline, Stopwatch: t.Stopwatch}
	s := share.NewSet(by, &a.in.Ledger, t)
	t.Lock()
	defer t.Unlock()
	if !cfg.forgets {
		window := found.SpendName()
		for _, tool := range toolsOf(r.limits.Counts) {
			name := r.Node.SpendID(window, tool)
			s.Add(share.Own(keptLimit{store: store, scope: name, currency: r.limits.currency}), "", tool)
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
			s.Add(share.Open(kept), of.Scope, tool)
		}
	}
	a.in.tree.Share(s)
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

// A keptLimit is a limit that a store keeps, as package share asks for it.
type keptLimit struct {
	store    SpendStore
	scope    string
	period   Period
	zone     string
	currency string
}

func (k keptLimit) Take(ctx context.Context, s *ledger.Slice) (ledger.Grant, error) {
	g, err := journal.Here(func() (Grant, error) {
		return k.store.Take(ctx, Slice{
			ID: s.ID, Scope: k.scope, Period: k.period, Zone: k.zone, Currency: k.currency,
			Least: totalsOf(s.Least), Limit: totalsOf(s.Limit), Force: s.Force,
		})
	})
	return ledger.Grant{
		Fits: g.Fits, Granted: g.Granted.counts(), Charged: g.Charged.counts(), Window: g.Window, Ends: g.Ends,
	}, err
}

func (k keptLimit) Return(ctx context.Context, one ledger.Return) error {
	_, err := journal.Here(func() (journal.Nothing, error) {
		return journal.Nothing{}, k.store.Return(ctx, one.ID, totalsOf(one.Unused))
	})
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
