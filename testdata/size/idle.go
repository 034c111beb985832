//go:build idle

package main

import (
	"context"
	"time"

	"github.com/seed62658d38/watchdog/idle"
)

func init() {
	guard = func(ctx context.Context) (context.Context, func()) {
		ctx, timer := idle.WithLimit(ctx, time.Minute)
		go func() {
			for range time.Tick(time.Second) {
				timer.Alive()
			}
		}()
		return ctx, timer.Close
	}
}
