package stall_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

// brokenStore fails the test when it is called.
type brokenStore struct{ t *testing.T }

func (s brokenStore) Append(context.Context, ...watchdog.Event) error {
	s.t.Error("Append was called")
	return errors.New("disk full")
}

func (s brokenStore) Read(context.Context, string, string) ([]watchdog.Event, error) {
	s.t.Error("Read was called")
	return nil, errors.New("disk full")
}

// disabled is a fixture in which a command trips at once in every way, if it is watched.
func disabled(t *testing.T) (f *fixture, probed string) {
	t.Helper()
	f, probed = newFixture(t), filepath.Join(t.TempDir(), "probed")
	f.cfg.Disabled, f.cfg.Store = true, brokenStore{t}
	f.cfg.WallClock, f.cfg.NoOutput, f.cfg.Terminal = time.Millisecond, time.Millisecond, readyLine
	f.cfg.Probe = &stall.Probe{Command: childCommand(t, "touch:"+probed), Interval: time.Millisecond}
	f.cfg.Tail = &stall.Tail{Bytes: 100, Redact: func(text []byte) []byte { return text }}
	return f, probed
}

// finishes expects that a silent command with a fatal line goes on until it exits.
func finishes(f *fixture, ctx context.Context, probed string) { //nolint:revive // the fixture is the test
	f.Helper()
	var out bytes.Buffer
	cmd := command(f, "print:"+ready, "sleep:300ms", "exit:3")
	cmd.Stdout = &out
	result, err := stall.Run(ctx, cmd, f.cfg)
	var exit *exec.ExitError
	require.ErrorAs(f, err, &exit)
	require.Equal(f, 3, exit.ExitCode())
	require.True(f, result.Finished)
	require.Nil(f, result.Trip)
	require.Zero(f, result.Probes.Count)
	require.Empty(f, result.Artifacts)
	require.Equal(f, ready+"\n", out.String())
	require.NoFileExists(f, probed)
	require.Empty(f, f.artifacts())
}

func TestDisabled(t *testing.T) {
	t.Parallel()
	t.Run("a command goes on until it exits", func(t *testing.T) {
		t.Parallel()
		f, probed := disabled(t)
		finishes(f, t.Context(), probed)
	})
	t.Run("so does one in a run that nothing guards", func(t *testing.T) {
		t.Parallel()
		f, probed := disabled(t)
		wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "run", StartedAt: time.Now()}, watchdog.Config{
			Disabled: true, Store: f.cfg.Store, Logger: discard, Budget: watchdog.Budget{WallClock: time.Millisecond},
		})
		require.NoError(t, err)
		defer wd.Close()
		f.cfg.Disabled, f.cfg.Store = false, nil
		finishes(f, wd.Context(), probed)
	})
	t.Run("in a run that is guarded its output is the run's activity", func(t *testing.T) {
		t.Parallel()
		f, _ := disabled(t)
		wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "run", StartedAt: time.Now()}, watchdog.Config{
			Store: &watchdog.Memory{}, Logger: discard, Budget: watchdog.Budget{Idle: 2 * time.Second},
		})
		require.NoError(t, err)
		defer wd.Close()
		f.cfg.Store = nil
		_, err = stall.Run(wd.Context(), command(f, "every:100ms:alive:30", "stay"), f.cfg)
		require.ErrorIs(t, err, watchdog.IdleExceeded)
		require.Greater(t, wd.Elapsed(), 3*time.Second, "while it printed it was alive")
	})
	t.Run("the log says so, once", func(t *testing.T) {
		t.Parallel()
		f, _ := disabled(t)
		var log bytes.Buffer
		f.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		_, err := f.run(command(f, "exit:0"))
		require.NoError(t, err)
		require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("\n")), "%s", &log)
		require.Contains(t, log.String(),
			`level=INFO msg="stall sentinel is disabled and does not watch the command" run=run/step`)
	})
}
