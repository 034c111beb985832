package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/session"
)

var listenRules = []rule{
	{
		"a listener is notified of each cancel",
		"a live run on another host must end when it is cancelled, and not at the next poll of that host",
		func(ctx context.Context, store session.Store) error {
			return listening(ctx, store, func(told <-chan string) error {
				for i, runID := range oddIDs {
					s, err := putSilent(ctx, store, runID, time.Hour)
					if err != nil {
						return err
					}
					c := cancelOf(runID)
					c.Events[0].ID = fmt.Sprint("cancel ", i)
					err = inOrder(
						func() error { return cancelsAs(ctx, store, s, c, session.Done) },
						func() error { return receives(ctx, told, runID) },
					)
					if err != nil {
						return err
					}
				}
				return nil
			})
		},
	},
	{
		"a listener is not notified of a cancel that changed nothing",
		"every pass would disturb a run that continued",
		func(ctx context.Context, store session.Store) error {
			return listening(ctx, store, func(told <-chan string) error {
				now, err := clockOf(ctx, store)
				if err != nil {
					return err
				}
				awake, stalled := silentSession("awake", now, time.Minute), silentSession("stalled", now, time.Hour)
				if err := put(ctx, store, awake, stalled); err != nil {
					return err
				}
				awake.Attempt++
				return inOrder(
					func() error { return cancels(ctx, store, awake, session.Changed) },
					func() error { return cancels(ctx, store, stalled, session.Done) },
					func() error { return receives(ctx, told, "stalled") },
				)
			})
		},
	},
	{
		"listening ends with its context",
		"a process that stops must not have to wait for a cancel",
		func(ctx context.Context, store session.Store) error {
			return listening(ctx, store, func(<-chan string) error { return nil })
		},
	},
}

// listening runs a check while the store listens, and then checks that listening ends.
func listening(ctx context.Context, store session.Store, check func(told <-chan string) error) error {
	listener, ok := store.(session.Listener)
	if !ok {
		return fmt.Errorf("%w: the store is not a session.Listener", errNotCheckable)
	}
	listenCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	ready, ended, told := make(chan struct{}), make(chan error, 1), make(chan string, 2*len(oddIDs))
	go func() {
		ended <- listener.Listen(listenCtx, func() { close(ready) }, func(runID string) { told <- runID })
	}()
	select {
	case <-ready:
	case err := <-ended:
		return fmt.Errorf("listening ended before it was ready: %w", err)
	case <-ctx.Done():
		return errors.New("listening never became ready")
	}
	err := check(told)
	cancel()
	select {
	case ending := <-ended:
		if ending != nil && !errors.Is(ending, context.Canceled) {
			err = errors.Join(err, fmt.Errorf("listening ended with %w", ending))
		}
	case <-ctx.Done():
		err = errors.Join(err, errors.New("listening did not end with its context"))
	}
	return err
}

func receives(ctx context.Context, told <-chan string, want string) error {
	select {
	case runID := <-told:
		if runID != want {
			return fmt.Errorf("the listener was told %q, want %q", runID, want)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the listener was not told of the cancel of %q", want)
	}
}
