package sessiontest

import (
	"context"

	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

type (
	rule = contract.Rule[session.Store]
	env  = contract.Env[session.Store]
)

func must(err error, doing string, args ...any) { contract.Must(err, doing, args...) }

func require(holds bool, found string, args ...any) { contract.Require(holds, found, args...) }

// withDoneContexts makes a call with contexts that are done. It must return the context's error.
func withDoneContexts(e *env, name string, call func(context.Context) error) {
	e.WithDoneContexts(name, func(done *env) { must(call(done.Ctx), "call") })
}

// errorOf returns the error of a call.
func errorOf[T any](_ T, err error) error { return err }
