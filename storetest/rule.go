package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
)

// A rule is one promise of the contract. A store with one defect breaks one rule: each check looks only at what its own
// rule promises, and the tests of this package verify that.
type rule struct {
	name, why string
	check     func(ctx context.Context, store watchdog.EventStore) error
}

// checkOn runs the check and closes the store.
func (r rule) checkOn(ctx context.Context, store watchdog.EventStore) error {
	return contract.Check(ctx, checkTimeout, store, func(ctx context.Context) error { return r.check(ctx, store) })
}

func (r rule) violation(err error) *Violation { return &Violation{Rule: r.name, Why: r.why, Err: err} }

func (r rule) report(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%v\nwhy it matters: %s", err, r.why)
	}
}

// checkTimeout limits a check. Only a store that hangs, or a very busy machine, needs it.
var checkTimeout = time.Minute
