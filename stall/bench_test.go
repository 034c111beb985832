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

// BenchmarkTrue runs a command that does nothing, with package exec and with Run.
func BenchmarkTrue(b *testing.B) {
	b.Run("exec", func(b *testing.B) {
		for b.Loop() {
			require.NoError(b, exec.Command("true").Run())
		}
	})
	b.Run("stall", func(b *testing.B) {
		cfg := stall.Config{
			Step: "a", Store: &watchdog.Memory{}, NoOutput: time.Minute, Logger: slog.New(slog.DiscardHandler),
		}
		for b.Loop() {
			_, err := stall.Run(b.Context(), exec.Command("true"), cfg)
			require.NoError(b, err)
		}
	})
}
