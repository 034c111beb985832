package sessiontest

import (
	"context"

	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

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
