package watchdog

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/unwrap"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A SharedSpend is limits that several runs share, such as those of a tenant, a fleet, a day: what each of them uses
// counts for all, whatever process it runs in. A run names them in its [Config]; its layers count for them, too.
type SharedSpend struct {
	// Scope names it, at most [MaxAggregateID] characters, with that of a tool of Spend.Tools.
	Scope string
	// Spend holds the limits, which every run that names the scope should give alike. CallInput, Errors and Retries are
	// of a run alone.
	Spend Spend
	// Period and Zone say when the count begins again, by the clock of the store. The zero value is never.
	Period Period
	Zone   string
}

// toolScope is the name under which a store keeps the limit of one tool.
func toolScope(scope, tool string) string {
	if tool == "" {
		return scope
	}
	return scope + "/tool/" + tool
}

func checkScopes(scopes []SharedSpend) error {
	seen := map[string]bool{}
	for _, s := range scopes {
		if err := s.check(); err != nil {
			return err
		}
		if seen[s.Scope] {
			return fmt.Errorf("%w config: Scopes has %q twice", ErrInvalid, s.Scope)
		}
		seen[s.Scope] = true
	}
	return nil
}

func (s *SharedSpend) check() error {
	if flaw := textFlaw(s.Scope, MaxAggregateID); flaw != "" {
		return fmt.Errorf("%w config: the name of a scope %s", ErrInvalid, flaw)
	}
	for tool := range s.Spend.Tools {
		if flaw := textFlaw(toolScope(s.Scope, tool), MaxAggregateID); flaw != "" {
			return fmt.Errorf("%w config: scope %q with the name of its tool %s", ErrInvalid, s.Scope, flaw)
		}
	}
	if err := errors.Join(s.Spend.check(), s.Period.check(s.Zone)); err != nil {
		return fmt.Errorf("scope %q: %w", s.Scope, err)
	}
	switch {
	case s.Spend.none():
		return fmt.Errorf("%w config: scope %q has no limit", ErrInvalid, s.Scope)
	case min(limitOf(s.Spend.CallInput), limitOf(s.Spend.Errors), limitOf(s.Spend.Retries)) != NoLimit:
		return fmt.Errorf("%w config: scope %q has CallInput, Errors or Retries, which are limits of one run; set them in "+
			"Budget", ErrInvalid, s.Scope)
	}
	return nil
}

// checkSpend checks what counts, and where it is kept.
func (cfg *Config) checkSpend() error {
	if err := errors.Join(checkScopes(cfg.Scopes), cfg.checkCurrencies()); err != nil {
		return err
	}
	able := cfg.spendStore() != nil
	switch {
	case !able && len(cfg.Scopes) > 0:
		return fmt.Errorf("%w config: Scopes are set, and Store is a %T, which is no SpendStore; set SpendStore", ErrInvalid,
			cfg.Store)
	case !able && cfg.Budget.Spend.isKept():
		return fmt.Errorf("%w config: Budget.Spend has limits, and Store is a %T, which is no SpendStore: what was spent "+
			"would be forgotten with the process; set SpendStore, to a Memory if it may be", ErrInvalid, cfg.Store)
	case cfg.forgets && len(cfg.Scopes) > 0 && cfg.SpendStore == nil:
		return fmt.Errorf("%w config: Scopes are set without a Store; set SpendStore to what the runs share", ErrInvalid)
	}
	return nil
}

// checkCurrencies returns an error if the run would count two.
func (cfg *Config) checkCurrencies() error {
	currency := cfg.Budget.Spend.Cost.Currency
	for _, s := range cfg.Scopes {
		other := s.Spend.Cost.Currency
		if currency == "" {
			currency = other
		}
		if other != "" && other != currency {
			return fmt.Errorf("%w config: scope %q counts %s, and another limit of the run %s", ErrInvalid, s.Scope, other,
				currency)
		}
	}
	return nil
}

// spendStore is where spend is kept, nil for nowhere.
func (cfg *Config) spendStore() SpendStore {
	if cfg.SpendStore != nil {
		return cfg.SpendStore
	}
	store, _ := unwrap.To[SpendStore, EventStore](cfg.Store)
	return store
}

// isKept reports whether a limit adds up, so that a store has to keep it.
func (s *Spend) isKept() bool {
	for _, l := range s.limits("") {
		if l.Kind < verdict.KindCallInput {
			return true
		}
	}
	return false
}

// pools are those of the scopes, which all runs of the process share.
var pools struct {
	mu   sync.Mutex
	open map[poolKey]*sharedPool
}

// A poolKey is what the windows of a scope are told apart by.
type poolKey struct {
	store    SpendStore
	scope    string
	period   Period
	zone     string
	currency string
}

func (p *pool) key() poolKey { return poolKey{p.store, p.scope, p.period, p.zone, p.currency} }

type sharedPool struct {
	*pool
	runs int
}

// openSpend has a session draw on what a store keeps of its limits, and learn what was used before.
func (w *Watchdog) openSpend(ctx context.Context, cfg *Config, found *fold.Window) error {
	store := cfg.spendStore()
	if store == nil || w.disabled || len(w.limits.Counts) == 0 && len(cfg.Scopes) == 0 || w.hasEnded() {
		return nil
	}
	a := w.accountOf()
	a.addPools(cfg, store, found)
	w.restoreScopes(found)
	ctx, cancel := clocks.WithTimeout(ctx, w.clock.other, w.recorder.timeout)
	defer cancel()
	for _, d := range a.draws {
		if err := a.restore(ctx, d, &w.recorder); err != nil {
			return fmt.Errorf("read what was spent: %w", err)
		}
	}
	return nil
}

// addPools adds the pools of the limits. The run's keeper and its timer may look at them already.
func (a *account) addPools(cfg *Config, store SpendStore, found *fold.Window) {
	w := a.w
	a.book.mu.Lock()
	defer a.book.mu.Unlock()
	if !cfg.forgets {
		window := found.SpendName()
		a.addDraws(w.limits.Counts, 0, func(tool string) *pool {
			name := record.EventID(w.id, window, "spend", record.Once+" "+tool)
			return &pool{store: store, scope: name, currency: w.limits.currency}
		})
	}
	for i := range cfg.Scopes {
		a.addScope(store, &cfg.Scopes[i])
	}
}

// addDraws adds a pool for the limits that add up, and one for that of each tool. The caller holds mu of the book.
func (a *account) addDraws(limits []verdict.CountLimit, from int, open func(tool string) *pool) {
	byTool := map[string]*draw{}
	for i, l := range limits {
		if l.Kind >= verdict.KindCallInput {
			continue
		}
		d := byTool[l.Tool]
		if d == nil {
			d = &draw{pool: open(l.Tool), tool: l.Tool}
			for kind := range d.limits {
				d.limits[kind] = -1
			}
			byTool[l.Tool] = d
			a.draws = append(a.draws, d)
		}
		d.limits[l.Kind] = from + i
	}
}

// addScope adds the limits of a scope to those of the session. The caller holds mu of the book.
func (a *account) addScope(store SpendStore, s *SharedSpend) {
	from, limits := len(a.spend.Limits), s.Spend.limits(s.Scope)
	a.spend.AddLimits(limits)
	if a.currency == "" {
		a.currency, a.book.currency = s.Spend.Cost.Currency, s.Spend.Cost.Currency
	}
	a.addDraws(limits, from, func(tool string) *pool {
		return openPool(&pool{
			store: store, scope: toolScope(s.Scope, tool), period: s.Period, zone: s.Zone, currency: s.Spend.Cost.Currency,
		})
	})
}

// openPool returns the pool of the scope that this process has, or this one.
func openPool(p *pool) *pool {
	if !reflect.ValueOf(p.store).Comparable() {
		return p
	}
	pools.mu.Lock()
	defer pools.mu.Unlock()
	key := p.key()
	if pools.open == nil {
		pools.open = map[poolKey]*sharedPool{}
	}
	if pools.open[key] == nil {
		pools.open[key] = &sharedPool{pool: p}
	}
	pools.open[key].runs++
	return pools.open[key].pool
}

// closePool lets go of a pool, and reports whether nobody draws on it any more.
func closePool(p *pool) (last bool) {
	if !reflect.ValueOf(p.store).Comparable() {
		return true
	}
	pools.mu.Lock()
	defer pools.mu.Unlock()
	key := p.key()
	shared := pools.open[key]
	if shared == nil || shared.pool != p {
		return true
	}
	if shared.runs--; shared.runs > 0 {
		return false
	}
	delete(pools.open, key)
	return true
}

// restore takes the first slice of a pool, unless it has one, and learns what the window is charged with.
func (a *account) restore(ctx context.Context, d *draw, r *recorder) error {
	a.book.mu.Lock()
	limit := a.open(d)
	a.book.mu.Unlock()
	for !d.pool.begun() {
		if _, err := d.pool.take(ctx, r, d.pool.newSlice(&verdict.Counts{}, &limit, false)); err != nil {
			return err
		}
	}
	a.book.mu.Lock()
	defer a.book.mu.Unlock()
	a.learn(d)
	return nil
}

// begun reports whether it is known what the window is charged with.
func (p *pool) begun() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn()
	return p.current != nil
}
