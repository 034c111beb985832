package storetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed62658d38/watchdog"
)

// errOptional is the error of a rule about an interface that the store does not implement.
var errOptional = errors.New("the rule is about an optional interface")

// transacting returns the check of a rule of [watchdog.TransactionalStore].
func transacting(
	check func(ctx context.Context, store watchdog.TransactionalStore) error,
) func(context.Context, watchdog.EventStore) error {
	return optional("watchdog.TransactionalStore", check)
}

// feeding returns the check of a rule of [watchdog.FeedStore].
func feeding(
	check func(ctx context.Context, store watchdog.FeedStore) error,
) func(context.Context, watchdog.EventStore) error {
	return optional("watchdog.FeedStore", check)
}

func optional[T any](
	name string, check func(ctx context.Context, store T) error,
) func(context.Context, watchdog.EventStore) error {
	return func(ctx context.Context, store watchdog.EventStore) error {
		able, ok := store.(T)
		if !ok {
			return fmt.Errorf("%w: the store is not a %s", errOptional, name)
		}
		return check(ctx, able)
	}
}
