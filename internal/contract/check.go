// Package contract is what storetest and sessiontest share: how rules are written, and checked against a store.
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
