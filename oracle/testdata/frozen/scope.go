package watchdog

import (
	"errors"
	"fmt"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/unwrap"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/verdict"
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
