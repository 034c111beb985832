//go:build unix

package stall_test

import (
	"log/slog"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

// From the start to the finish of a command that does nothing.
func BenchmarkTrue(b *testing.B) {
	b.Run("exec", func(b *testing.B) {
		for b.Loop() {
			require.NoError(b, exec.Command("true").Run())
		}
	})
	b.Run("stall", func(b *testing.B) {
		cfg := stall.Config{Step: "a", Store: &watchdog.Memory{}, NoOutput: time.Minute, Logger: slog.New(slog.DiscardHandler)}
		for b.Loop() {
			_, err := stall.Run(b.Context(), exec.Command("true"), cfg)
			require.NoError(b, err)
		}
	})
}
