package storeflow

import (
	"context"
	"time"

	"github.com/seed62658d38/watchdog"
)

// Follow calls told for what each poll returns, after a pause that the poll before asked for. It ends with the error of
// the context or of a poll, and calls told no more when the store is closed: a poll then fails.
func Follow(
	ctx context.Context, pause time.Duration, isClosed func() bool, told func(watchdog.Event),
	poll func(context.Context) ([]watchdog.Event, time.Duration, error),
) error {
	for {
		if !isClosed() {
			if err := sleep(ctx, pause); err != nil {
				return err
			}
		}
		events, next, err := poll(ctx)
		if err != nil {
			return err
		}
		for _, e := range events {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if isClosed() {
				break
			}
			told(e)
		}
		pause = next
	}
}

// sleep returns the context's error if it ends first.
func sleep(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
