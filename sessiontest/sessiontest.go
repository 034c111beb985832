package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/storetest"
)

// A Putter is a store under test that can also write rows as another program would.
type Putter interface {
	// Put inserts or replaces rows as they are, in one transaction. The rows have no lease, and nothing else that only
	// a keeper or a sweeper writes: no warning, claim or state.
	Put(ctx context.Context, rows ...session.Session) error
	// Spoil makes a row unreadable, for instance with an invalid time of the last event.
	Spoil(ctx context.Context, runID string) error
}

// Run checks every rule of [session.Store], each in a subtest. It skips the rules of [session.Listener],
// [session.Lister], [session.BatchCanceller] and [session.Outbox] if the store is not one, those of an outbox also if
// it is off ([session.ErrNoOutbox]), and those that need a [Putter] if it is none. It calls open once per rule. open
// must return an empty store that nothing else uses; Run closes it afterwards if it is an [io.Closer]. Rules run one
// after the other, but some call the store from many goroutines.
func Run(t *testing.T, open func(t *testing.T) session.Store) {
	t.Helper()
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			err := r.checkOn(t.Context(), open(t))
			switch {
			case errors.Is(err, errNotCheckable):
				t.Skip(err)
			case err != nil:
				t.Errorf("%v\nwhy it matters: %s", err, r.why)
			}
		})
	}
}

// Test checks the rules of [Run] without a testing.T. It returns nil, or one error that joins a
// [*storetest.Violation] for each broken rule. It leaves out the rules that Run skips.
func Test(open func() (session.Store, error)) error {
	var violations []error
	for _, r := range rules() {
		store, err := open()
		if err != nil {
			return fmt.Errorf("open a store: %w", err)
		}
		if err := r.checkOn(context.Background(), store); err != nil && !errors.Is(err, errNotCheckable) {
			violations = append(violations, &storetest.Violation{Rule: r.name, Why: r.why, Err: err})
		}
	}
	return errors.Join(violations...)
}

// errNotCheckable is the error of a rule that needs more than the store has.
var errNotCheckable = errors.New("the rule cannot be checked")

// A rule is one promise of the contract. A store with one defect breaks one rule: each check looks only at what its
// own rule promises, and the tests of this package verify that.
type rule struct {
	name, why string
	check     func(ctx context.Context, store session.Store) error
}

func rules() []rule {
	var all []rule
	for _, some := range [][]rule{
		attachRules, takeoverRules, rowRules, leaseRules, freshRules, expireRules, lostRules, expiredRules, endRules,
		stalledRules, pageRules, silenceRules, behindRules, allowanceRules,
		cancelRules, guardRules, signRules, claimRules, stoppedRules, storedEndRules, raceRules, togetherRules,
		endedRules, historyRules, listRules, listenRules, outboxRules, outboxRaceRules, contextRules,
	} {
		all = append(all, some...)
	}
	return all
}

// checkTimeout limits a check. Only a store that hangs, or a very busy machine, needs it.
var checkTimeout = time.Minute

// checkOn runs the check and closes the store.
func (r rule) checkOn(ctx context.Context, store session.Store) error {
	return contract.Check(ctx, checkTimeout, store, func(ctx context.Context) error { return r.check(ctx, store) })
}
