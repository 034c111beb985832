package stall_test

import (
	"bytes"
	"context"
	"log/slog"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

// TestTreeKill runs commands without a store and without a limit.
func TestTreeKill(t *testing.T) {
	t.Parallel()
	t.Run("needs a step and nothing else, and logs nothing", func(t *testing.T) {
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
	})
	t.Run("ends what was left behind", func(t *testing.T) {
		t.Parallel()
		result, err := stall.Run(t.Context(), command(t, "daemon:print:"+ready+";stay"), stall.Config{Step: "build"})
		require.NoError(t, err)
		require.Equal(t, 1, result.LeftBehind)
	})
	t.Run("is not what a config with a store or artifacts means, and the log says so", func(t *testing.T) {
		t.Parallel()
		for name, change := range map[string]func(*stall.Config){
			"store":     func(c *stall.Config) { c.Store = &watchdog.Memory{} },
			"artifacts": func(c *stall.Config) { c.Artifacts = t.TempDir() },
		} {
			var log bytes.Buffer
			cfg := stall.Config{Step: "build", Logger: slog.New(slog.NewTextHandler(&log, nil))}
			change(&cfg)
			_, err := stall.Run(t.Context(), command(t), cfg)
			require.NoError(t, err)
			require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("can never end its command")), name)
		}
	})
}

// TestNoLimit checks that a limit which is switched off by name is off: nothing is needed for it, and nothing logged.
func TestNoLimit(t *testing.T) {
	for name, cfg := range map[string]stall.Config{
		"no store": {NoOutput: watchdog.NoLimit, WallClock: watchdog.NoLimit},
		"a store":  {NoOutput: watchdog.NoLimit, Store: &watchdog.Memory{}},
		"or both":  {WallClock: watchdog.NoLimit, Store: &watchdog.Memory{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			cfg.Step, cfg.Logger = "build", slog.New(slog.NewTextHandler(&log, nil))
			_, err := stall.Run(t.Context(), command(t), cfg)
			require.NoError(t, err)
			require.Empty(t, log.String())
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

// TestNoInterrupt leaves SIGINT out, whatever ends the command.
func TestNoInterrupt(t *testing.T) {
	t.Parallel()
	t.Run("after a trip", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.cfg.Terminal, f.cfg.Grace = readyLine, []stall.Step{{Signal: syscall.SIGTERM, Grace: 100 * time.Millisecond}}
		result, _ := f.stalled(command(t, "obey:INT:3", "ignore:TERM", "print:"+ready, "stay"))
		require.Equal(t, []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL}, result.Requested)
		require.Equal(t, result.Requested, signals(result))
		r := f.record()
		require.Equal(t, words("SIGTERM SIGKILL"), r.Action.Requested)
		require.NotContains(t, f.artifact("event.json"), "SIGINT")
	})
	t.Run("at the end of the context", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.cfg.Grace = []stall.Step{{Signal: syscall.SIGTERM, Grace: stall.DefaultTerminateGrace}}
		ctx, cancel := context.WithCancel(t.Context())
		cmd := command(t, "obey:INT:3", "print:"+ready, "stay")
		cmd.Stdout = &onFirstWrite{cancel}
		result, err := stall.Run(ctx, cmd, f.cfg)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, syscall.SIGTERM, result.EndedBy)
		require.Equal(t, []syscall.Signal{syscall.SIGTERM}, signals(result))
	})
}
