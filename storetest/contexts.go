package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
)

var contextRules = []rule{
	{
		"an append under a context that has ended stores nothing and returns the context's error",
		"a watchdog gives a store its record timeout and no more: what was reported as not stored must not turn up later",
		func(ctx context.Context, store watchdog.EventStore) error {
			if err := put(ctx, store, numbered("witness", 0)); err != nil {
				return err
			}
			return withDoneContexts(ctx, func(ended context.Context) error {
				err := store.Append(ended, numbered("late", 1))
				return errors.Join(
					wrapsContextError(ended, "Append", err),
					refused(ctx, store, err, "witness", "append under a context that has ended"),
				)
			})
		},
	},
	{
		"a read under a context that has ended returns the context's error",
		"whoever asked has gone: an answer that looks like an empty run, or a wait, is worse than the error",
		func(ctx context.Context, store watchdog.EventStore) error {
			return withDoneContexts(ctx, func(ended context.Context) error {
				_, err := store.Read(ended, watchdog.AggregateType, runID)
				return wrapsContextError(ended, "Read", err)
			})
		},
	},
}

// underEnded runs a call under a cancelled context and under one whose deadline has passed.
func withDoneContexts(ctx context.Context, call func(context.Context) error) error {
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	expired, cancel := context.WithDeadline(ctx, time.Now().Add(-time.Second))
	defer cancel()
	return errors.Join(call(cancelled), call(expired))
}

func wrapsContextError(ended context.Context, call string, err error) error {
	switch {
	case err == nil:
		return fmt.Errorf("%s returned nil", call)
	case !errors.Is(err, ended.Err()):
		return fmt.Errorf("%s returned an error that does not wrap the context's: %w", call, err)
	}
	return nil
}
