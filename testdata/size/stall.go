//go:build stall

package main

import (
	"context"
	"os/exec"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

func init() {
	run = func(ctx context.Context, cmd *exec.Cmd) error {
		_, err := stall.Run(ctx, cmd, stall.Config{Step: "shell", Store: &watchdog.Memory{}, NoOutput: time.Minute})
		return err
	}
}
