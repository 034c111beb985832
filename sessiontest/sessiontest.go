package sessiontest

import (
	"context"
	"slices"
	"testing"

	"github.com/seed62658d38/watchdog/internal/contract"
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
	contract.Run(t, rules(), open)
}

// Test checks the rules of [Run] without a testing.T. It returns nil, or one error that joins a
// [*storetest.Violation] for each broken rule. It leaves out the rules that Run skips.
func Test(open func() (session.Store, error)) error {
	return contract.Test(rules(), open, func(rule, why string, err error) error {
		return &storetest.Violation{Rule: rule, Why: why, Err: err}
	})
}

func rules() []rule {
	return slices.Concat(
		attachRules, rowRules, leaseRules, freshRules, expireRules, endRules, stalledRules, quietRules,
		cancelRules, claimRules, startRules, endedRules, historyRules, listRules, outboxRules,
	)
}

type (
	rule      = contract.Rule[session.Store]
	env       = contract.Env[session.Store]
	row       = session.Session
	freshness = session.Freshness
	lease     = session.Lease
)

func must(err error, doing string, args ...any) { contract.Must(err, doing, args...) }

func require(holds bool, found string, args ...any) { contract.Require(holds, found, args...) }

// given is a check that starts with what begin returns, and given2 with two things.
func given[T any](begin func(e *env) T, check func(e *env, made T)) func(e *env) {
	return func(e *env) { check(e, begin(e)) }
}

func given2[T, U any](begin func(e *env) (T, U), check func(e *env, one T, other U)) func(e *env) {
	return func(e *env) {
		one, other := begin(e)
		check(e, one, other)
	}
}

// calls are calls of a store, by what they are called.
type calls = map[string]func(context.Context) error

// withDoneContexts makes calls with contexts that are done. They must return the context's error.
func withDoneContexts(e *env, all calls) {
	for name, call := range all {
		e.WithDoneContexts(name, func(done *env) { must(call(done.Ctx), "call") })
	}
}

func errorOf[T any](_ T, err error) error { return err }

// A Putter is a store under test that can also write rows as another program would.
type Putter interface {
	// Put inserts or replaces rows as they are, in one transaction. The rows have no lease, and nothing else that only
	// a keeper or a sweeper writes: no warning, claim or state.
	Put(ctx context.Context, rows ...session.Session) error
	// Spoil makes a row unreadable, for instance with an invalid time of the last event.
	Spoil(ctx context.Context, runID string) error
}
