// Package contract is what storetest and sessiontest share: how the check of one rule runs against one store.
//
// It contains no rule.
package contract

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Check runs the check of a rule against a store that nobody else uses, and then closes the store if it is an
// [io.Closer]. After a timeout it does not close the store, because Close would wait for the call that hangs.
func Check(ctx context.Context, timeout time.Duration, store any, check func(context.Context) error) error {
	err := Within(ctx, timeout, check)
	if errors.Is(err, errHangs) {
		return err
	}
	return errors.Join(err, Close(store))
}

var errHangs = errors.New("a call did not return")

// Within runs a check whose calls may hang. It cancels the check's context after the timeout. If the check does not
// return then, Within returns an error and leaves the check's goroutine behind.
func Within(ctx context.Context, timeout time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	result := make(chan error, 1)
	go func() {
		err := errors.New("the check was ended by runtime.Goexit")
		defer func() { result <- err }()
		err = check(ctx)
	}()
	select {
	case err := <-result:
		return err
	case <-time.After(timeout + timeout/10):
		return fmt.Errorf("%w within %v, although its context had ended", errHangs, timeout)
	}
}

// Close closes a store if it is an [io.Closer].
func Close(store any) error {
	closer, ok := store.(io.Closer)
	if !ok {
		return nil
	}
	if err := closer.Close(); err != nil {
		return fmt.Errorf("close the store: %w", err)
	}
	return nil
}
