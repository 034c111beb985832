package sessiontest

import (
	"slices"
	"testing"

	"github.com/seed62658d38/watchdog/event/eventtest"
	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

// Run checks every rule of [session.Store], each in a subtest. It skips the rules of [session.Listener],
// [session.Lister] and [session.BatchCanceller] if the store is not one, and those that need a [Putter] if it is none.
// It calls open once per rule. open must return an empty store that nothing else uses; Run closes it afterwards if it
// is an [io.Closer]. Rules run one after the other, but some call the store from many goroutines.
func Run(t *testing.T, open func(t *testing.T) session.Store) {
	t.Helper()
	contract.Run(t, rules(), open)
}

// Test checks the rules of [Run] without a testing.T. It returns nil, or one error that joins a
// [*eventtest.Violation] for each broken rule. It leaves out the rules that Run skips.
func Test(open func() (session.Store, error)) error {
	return contract.Test(rules(), open, func(rule, why string, err error) error {
		return &eventtest.Violation{Rule: rule, Why: why, Err: err}
	})
}

func rules() []rule {
	return slices.Concat(
		attachRules, rowRules, leaseRules, freshRules, expireRules, endRules, stalledRules, quietRules,
		cancelRules, claimRules, startRules, endedRules, historyRules, listRules,
	)
}
