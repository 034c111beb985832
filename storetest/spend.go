package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
)

// RunSpend checks every rule of [watchdog.SpendStore], each in a subtest, as [Run] does for the rules of an
// [watchdog.EventStore]. It calls open once per rule. open must return a store that nothing is charged in and that
// nothing else uses; RunSpend closes it afterwards if it is an [io.Closer].
func RunSpend(t *testing.T, open func(t *testing.T) watchdog.SpendStore) {
	t.Helper()
	for _, r := range spendRules() {
		t.Run(r.name, func(t *testing.T) { r.report(t, r.checkOn(t.Context(), open(t))) })
	}
}

// TestSpend checks the rules of [RunSpend] without a testing.T. It returns nil, or one error that joins a [*Violation]
// for each broken rule.
func TestSpend(open func() (watchdog.SpendStore, error)) error {
	var violations []error
	for _, r := range spendRules() {
		store, err := open()
		if err != nil {
			return fmt.Errorf("open a store: %w", err)
		}
		if err := r.checkOn(context.Background(), store); err != nil {
			violations = append(violations, r.violation(err))
		}
	}
	return errors.Join(violations...)
}

// A spendRule is one promise of a [watchdog.SpendStore].
type spendRule struct {
	name, why string
	check     func(s spender) error
}

func spendRules() []spendRule {
	return slices.Concat(spendFitRules, spendAgainRules, spendReturnRules, spendScopeRules, spendWindowRules,
		spendRefusalRules, spendTogetherRules)
}

func (r spendRule) checkOn(ctx context.Context, store watchdog.SpendStore) error {
	check := func(ctx context.Context) error { return r.check(spender{ctx, store}) }
	return contract.Check(ctx, checkTimeout, store, check)
}

func (r spendRule) violation(err error) *Violation {
	return rule{name: r.name, why: r.why}.violation(err)
}

func (r spendRule) report(t *testing.T, err error) {
	t.Helper()
	rule{name: r.name, why: r.why}.report(t, err)
}

// A spender makes the calls of a check.
type spender struct {
	ctx   context.Context
	store watchdog.SpendStore
}

// tenant is the scope of the checks that are not about scopes.
const tenant = "tenant-1"

// asks returns a slice that needs so many requests of so many. It needs nothing else, so that nothing else is granted.
// A limit below 64 has no sixty-fourth: what is granted is what is needed.
func asks(id string, least, limit int64) watchdog.Slice {
	return watchdog.Slice{ID: id, Scope: tenant, Least: requests(least), Limit: requests(limit)}
}

func requests(n int64) watchdog.Totals { return watchdog.Totals{Requests: n} }

func (s spender) take(slice watchdog.Slice) (watchdog.Grant, error) {
	g, err := s.store.Take(s.ctx, slice)
	if err != nil {
		err = fmt.Errorf("take slice %.40q of scope %.40q: %w", slice.ID, slice.Scope, err)
	}
	return g, err
}

// granted takes a slice that must fit, and checks what is granted and what the window is charged with then.
func (s spender) granted(slice watchdog.Slice, granted, charged watchdog.Totals) error {
	g, err := s.take(slice)
	switch {
	case err != nil:
		return err
	case !g.Fits:
		return fmt.Errorf("slice %.40q, %s, did not fit, want it granted", slice.ID, asked(slice))
	case g.Granted != granted:
		return fmt.Errorf("slice %.40q, %s: granted %+v, want %+v", slice.ID, asked(slice), g.Granted, granted)
	case g.Charged != charged:
		return fmt.Errorf("slice %.40q, %s: its window is charged with %+v, want %+v",
			slice.ID, asked(slice), g.Charged, charged)
	}
	return nil
}

func asked(slice watchdog.Slice) string { return fmt.Sprintf("%+v of %+v", slice.Least, slice.Limit) }

// gets takes a slice of requests that must be granted.
func (s spender) gets(slice watchdog.Slice, granted, charged int64) error {
	return s.granted(slice, requests(granted), requests(charged))
}

// refused takes a slice that must not fit.
func (s spender) refused(slice watchdog.Slice) error {
	g, err := s.take(slice)
	if err == nil && (g.Fits || g.Granted != watchdog.Totals{}) {
		err = fmt.Errorf("slice %.40q, %s, was granted %+v, want nothing: it does not fit", slice.ID, asked(slice), g.Granted)
	}
	return err
}

func (s spender) giveBack(id string, n int64) error {
	if err := s.store.Return(s.ctx, id, requests(n)); err != nil {
		return fmt.Errorf("return %d requests of slice %.40q: %w", n, id, err)
	}
	return nil
}

// charged returns what the window of a slice is charged with, by asking for what cannot fit.
func (s spender) charged(like watchdog.Slice) (watchdog.Totals, error) {
	const far = 1 << 40
	like.ID, like.Least, like.Limit, like.Force = "look", requests(far), watchdog.Totals{}, false
	g, err := s.take(like)
	return g.Charged, err
}

// holds checks what the window of a slice is charged with.
func (s spender) holds(like watchdog.Slice, want watchdog.Totals) error {
	got, err := s.charged(like)
	if err == nil && got != want {
		err = fmt.Errorf("the window of scope %.40q is charged with %+v, want %+v", like.Scope, got, want)
	}
	return err
}

// isInvalid checks that a call was refused for what it asked.
func isInvalid(err error, what string) error {
	switch {
	case err == nil:
		return fmt.Errorf("%s: the call returned nil, want ErrInvalid", what)
	case !errors.Is(err, watchdog.ErrInvalid):
		return fmt.Errorf("%s: the error does not wrap ErrInvalid: %w", what, err)
	}
	return nil
}

// inTurn runs the steps until one fails.
func inTurn(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
