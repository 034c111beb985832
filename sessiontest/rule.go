package sessiontest

import (
	"context"
	"errors"
	"time"

	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

// errNotCheckable is the error of a rule that needs more than the store has.
var errNotCheckable = errors.New("the rule cannot be checked")

// A rule is one promise of the contract. A store with one defect breaks one rule: each check looks only at what its
// own rule promises, and the tests of this package verify that.
type rule struct {
	name, why string
	check     func(e *env)
}

// checkTimeout limits a check. Only a store that hangs, or a very busy machine, needs it.
var checkTimeout = time.Minute

// checkOn runs the check and closes the store.
func (r rule) checkOn(ctx context.Context, store session.Store) error {
	return contract.Check(ctx, checkTimeout, store, func(ctx context.Context) error {
		return contract.Catch(func() { r.check(&env{ctx, store}) })
	})
}
