//go:build watchdog

package main

import (
	"context"

	"github.com/seed62658d38/watchdog"
)

func init() {
	guard = func(ctx context.Context) (context.Context, func()) {
		run, err := watchdog.New(ctx, watchdog.Run{}, watchdog.Config{})
		if err != nil {
			panic(err)
		}
		step = func(_, output string) error {
			run.ProgressDigest(output)
			return nil
		}
		return run.Context(), func() { _ = run.Close() }
	}
}
