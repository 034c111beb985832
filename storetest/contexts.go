package storetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
)

var contextRules = []rule{
	{
		"an append with a done context stores nothing and returns the context's error",
		"a watchdog waits only for its record timeout: an event that was reported as not stored must not appear later",
		func(ctx context.Context, store watchdog.EventStore) error {
			if err := put(ctx, store, numbered("before", 0)); err != nil {
				return err
			}
			return contract.WithDoneContexts(ctx, func(done context.Context) error {
				err := store.Append(done, numbered("late", 1))
				return errors.Join(
					wrapsContextError(done, "Append", err),
					refused(ctx, store, err, "before", "append with a done context"),
				)
			})
		},
	},
	{
		"a read with a done context returns the context's error",
		"the caller no longer waits: an answer that looks like an empty run is worse than the error",
		func(ctx context.Context, store watchdog.EventStore) error {
			return contract.WithDoneContexts(ctx, func(done context.Context) error {
				_, err := store.Read(done, watchdog.AggregateType, runID)
				return wrapsContextError(done, "Read", err)
			})
		},
	},
}

func wrapsContextError(done context.Context, call string, err error) error {
	switch {
	case err == nil:
		return fmt.Errorf("%s returned nil", call)
	case !errors.Is(err, done.Err()):
		return fmt.Errorf("%s returned an error that does not wrap the context's: %w", call, err)
	}
	return nil
}
