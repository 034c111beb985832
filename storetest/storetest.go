package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/seed62658d38/watchdog"
)

// Run checks every rule of [watchdog.EventStore], each in a subtest. It skips the rules of
// [watchdog.TransactionalStore] and [watchdog.FeedStore] if the store does not implement them. It calls open once per
// rule. open must return an empty store that nothing else uses; Run closes it afterwards if it is an [io.Closer]. Rules
// run one after the other, but some call the store from many goroutines.
func Run(t *testing.T, open func(t *testing.T) watchdog.EventStore) {
	t.Helper()
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			err := r.checkOn(t.Context(), open(t))
			if errors.Is(err, errOptional) {
				t.Skip(err)
			}
			r.report(t, err)
		})
	}
}

// Test checks the rules of [Run] without a testing.T. It returns nil, or one error that joins a [*Violation] for each
// broken rule. It leaves out the rules that Run skips.
func Test(open func() (watchdog.EventStore, error)) error {
	var violations []error
	for _, r := range rules() {
		store, err := open()
		if err != nil {
			return fmt.Errorf("open a store: %w", err)
		}
		if err := r.checkOn(context.Background(), store); err != nil && !errors.Is(err, errOptional) {
			violations = append(violations, r.violation(err))
		}
	}
	return errors.Join(violations...)
}

func rules() []rule {
	var all []rule
	for _, some := range [][]rule{
		fieldRules, refusalRules, batchRules, identityRules, orderRules, timeRules,
		aggregateRules, payloadRules, contextRules, ownershipRules, concurrencyRules,
		selectionRules, transactionRules, layerRules, followRules,
	} {
		all = append(all, some...)
	}
	return all
}
