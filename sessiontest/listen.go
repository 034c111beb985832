package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

var listenRules = []rule{
	{"a listener is notified of each cancel",
		"a live run on another host must end when it is cancelled, and not at the next poll of that host",
		func(e *env) {
			listening(e, func(told <-chan string) {
				for i, runID := range oddIDs {
					s, c := putSilent(e, runID, time.Hour), cancelOf(runID)
					c.Events[0].ID = fmt.Sprint("cancel ", i)
					cancelsAs(e, s, c, session.Done)
					receives(e, told, runID)
				}
			})
		}},
	{"a listener is not notified of a cancel that changed nothing",
		"every pass would disturb a run that continued",
		func(e *env) {
			listening(e, func(told <-chan string) {
				awake, stalled := putSilent(e, "awake", time.Minute), putSilent(e, "stalled", time.Hour)
				awake.Attempt++
				cancels(e, awake, session.Changed)
				cancels(e, stalled, session.Done)
				receives(e, told, "stalled")
			})
		}},
	{"listening ends with its context",
		"a process that stops must not have to wait for a cancel",
		func(e *env) { listening(e, func(<-chan string) {}) }},
}

// listening runs a check while the store listens, and then checks that listening ends.
func listening(e *env, check func(told <-chan string)) {
	listener := contract.Optional[session.Listener](e)
	ctx, cancel := context.WithCancel(e.Ctx)
	defer cancel()
	ready, ended, told := make(chan struct{}), make(chan error, 1), make(chan string, 2*len(oddIDs))
	go func() {
		ended <- listener.Listen(ctx, func() { close(ready) }, func(runID string) { told <- runID })
	}()
	select {
	case <-ready:
	case err := <-ended:
		require(false, "listening ended before it was ready: %w", err)
	case <-e.Ctx.Done():
		require(false, "listening never became ready")
	}
	failure := contract.Catch(func() { check(told) })
	cancel()
	select {
	case err := <-ended:
		must(failure, "while the store listens")
		require(err == nil || errors.Is(err, context.Canceled), "listening ended with %w", err)
	case <-e.Ctx.Done():
		contract.Fail(errors.Join(failure, errors.New("listening did not end with its context")))
	}
}

func receives(e *env, told <-chan string, want string) {
	select {
	case runID := <-told:
		require(runID == want, "the listener was told %q, want %q", runID, want)
	case <-e.Ctx.Done():
		require(false, "the listener was not told of the cancel of %q", want)
	}
}
