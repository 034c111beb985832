package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/storetest"
)

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

func rules() []rule {
	var all []rule
	for _, some := range [][]rule{
		attachRules, takeoverRules, rowRules, leaseRules, freshRules, expireRules, lostRules, expiredRules, endRules,
		stalledRules, pageRules, silenceRules, behindRules, allowanceRules,
		cancelRules, guardRules, signRules, claimRules, stoppedRules, storedEndRules, raceRules, togetherRules,
		startRules, endedRules, historyRules, listRules, listenRules, outboxRules, outboxRaceRules, contextRules,
	} {
		all = append(all, some...)
	}
	return all
}
