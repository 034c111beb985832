package stall_test

import (
	"bytes"
	"context"
	"log/slog"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

// TestTreeKill runs a command without a store and without a limit, which needs a step and nothing else.
func TestTreeKill(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := command(t, "child:print:"+ready+";stay", "print:"+ready, "stay")
	cmd.Stdout = &onFirstWrite{cancel}
	cfg := stall.Config{Step: "build", Logger: slog.New(slog.NewTextHandler(&log, nil))}
	result, err := stall.Run(ctx, cmd, cfg)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "build", result.RunID)
	require.Equal(t, 2, result.Sent[0].Processes)
	require.Empty(t, log.String())
}

// TestNoLimit checks that a limit which is switched off by name is off: nothing is needed for it, and nothing logged.
// The log says so if a config has what only a trip uses, and no limit.
func TestNoLimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg   stall.Config
		warns int
	}{
		"no store":   {stall.Config{NoOutput: watchdog.NoLimit, WallClock: watchdog.NoLimit}, 0},
		"one limit":  {stall.Config{NoOutput: watchdog.NoLimit, Store: &watchdog.Memory{}}, 0},
		"the other":  {stall.Config{WallClock: watchdog.NoLimit, Store: &watchdog.Memory{}}, 0},
		"a store":    {stall.Config{Store: &watchdog.Memory{}}, 1},
		"a folder":   {stall.Config{Artifacts: t.TempDir()}, 1},
		"only these": {stall.Config{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			c.cfg.Step, c.cfg.Logger = "build", slog.New(slog.NewTextHandler(&log, nil))
			_, err := stall.Run(t.Context(), command(t), c.cfg)
			require.NoError(t, err)
			require.Equal(t, c.warns, strings.Count(log.String(), "\n"), log.String())
			require.Equal(t, c.warns, strings.Count(log.String(), "can never end its command"))
		})
	}
}

// TestStoreMissing checks that what needs a store says so.
func TestStoreMissing(t *testing.T) {
	for field, change := range map[string]func(*stall.Config){
		"NoOutput":  func(c *stall.Config) { c.NoOutput = longTime },
		"WallClock": func(c *stall.Config) { c.WallClock = longTime },
		"Terminal":  func(c *stall.Config) { c.Terminal = readyLine },
		"Probe":     func(c *stall.Config) { c.Probe = &stall.Probe{Command: []string{"true"}} },
	} {
		for _, disabled := range []bool{false, true} {
			cfg := stall.Config{Step: "step", Disabled: disabled, Logger: discard}
			change(&cfg)
			_, err := stall.Run(t.Context(), exec.Command("true"), cfg)
			require.ErrorIs(t, err, watchdog.ErrInvalid)
			require.ErrorContains(t, err, "Store is nil and "+field+" is set; set Store")
		}
	}
}
