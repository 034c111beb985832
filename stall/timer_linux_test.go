package stall_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/idle"
	"github.com/seed62658d38/watchdog/stall"
)

// TestInsideTimer runs commands in the context of a timer of package idle.
func TestInsideTimer(t *testing.T) {
	t.Parallel()
	const limit = 5 * time.Second // longer than a busy machine delays a command
	t.Run("output is a sign of life, and silence ends the command", func(t *testing.T) {
		t.Parallel()
		f := newInsideFixture(t)
		f.cfg.Artifacts = ""
		ctx, timer := idle.WithLimit(t.Context(), limit)
		defer timer.Close()
		result, err := stall.Run(ctx, command(t, "every:100ms:x:60"), f.cfg)
		require.NoError(t, err, "it printed for six seconds")
		require.True(t, result.Finished)
		_, err = stall.Run(ctx, command(t, "stay"), f.cfg)
		stop, stopped := timer.Stopped()
		require.True(t, stopped)
		require.ErrorIs(t, err, stop)
	})
	t.Run("a reader that is behind is not silence, inside two timers and a run", func(t *testing.T) {
		t.Parallel()
		f := newInsideFixture(t)
		f.cfg.Artifacts = ""
		_, around := outerRun(t, f.store, watchdog.Budget{}, false)
		outer, outerTimer := idle.WithLimit(around, limit)
		defer outerTimer.Close()
		ctx, timer := idle.WithLimit(outer, limit)
		defer timer.Close()
		cmd := command(t, "flood:"+floodSize)
		cmd.Stdout = &onFirstWrite{func() { time.Sleep(6 * time.Second) }}
		_, err := stall.Run(ctx, cmd, f.cfg)
		require.NoError(t, err)
	})
	t.Run("a probe that says so is a sign of life", func(t *testing.T) {
		t.Parallel()
		err := context.DeadlineExceeded
		for n := 0; n < attempts && err != nil; n++ {
			f := newInsideFixture(t)
			_, around := outerRun(t, f.store, watchdog.Budget{}, false)
			ctx, timer := idle.WithLimit(around, limit)
			f.cfg.ActivitySource = stall.ActivityStderr
			f.cfg.Probe = f.probe("=progressing")
			f.cfg.Probe.Interval = 200 * time.Millisecond
			_, err = stall.Run(ctx, command(t, "every:20ms:x:350"), f.cfg)
			timer.Close()
		}
		require.NoError(t, err)
	})
}
