package stall_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

// TestExit runs commands that exit by themselves.
func TestExit(t *testing.T) {
	t.Parallel()
	t.Run("with success", func(t *testing.T) {
		f := newFixture(t)
		result, err := f.run(command(t))
		require.NoError(t, err)
		require.True(t, result.Finished)
		require.Zero(t, result.ExitCode)
		require.Nil(t, result.Trip)
		require.Empty(t, result.Requested)
		require.Empty(t, result.Artifacts)
		require.Empty(t, f.artifacts(), "no trip, no artifacts")
		require.Positive(t, result.Elapsed)
		require.Equal(t, "run/step", result.RunID)
		require.Empty(t, f.events(watchdog.EventCancel))
	})
	t.Run("in its folder, with its environment", func(t *testing.T) {
		cmd := command(t, "pwd", "env:COLOUR")
		cmd.Dir = t.TempDir()
		cmd.Env = append([]string{"COLOUR=green"}, cmd.Env...)
		var out strings.Builder
		cmd.Stdout = &out
		_, err := newFixture(t).run(cmd)
		require.NoError(t, err)
		require.Equal(t, cmd.Dir+"\ngreen\n", out.String())
	})
}

func TestConcurrentRuns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var all sync.WaitGroup
	for n := range 16 {
		cfg := f.cfg
		cfg.Step = "step" + string(rune('a'+n))
		if n%2 == 1 {
			cfg.Terminal = readyLine
		}
		cmd := command(t, "print:"+ready, "sleep:20ms")
		if n%2 == 1 {
			cmd = command(t, "print:"+ready, "stay")
		}
		all.Go(func() {
			result, err := stall.Run(t.Context(), cmd, cfg)
			assert.Equal(t, n%2 == 1, err != nil, "%v", err)
			assert.Equal(t, n%2 == 0, result.Finished)
			assert.Equal(t, n%2 == 1, result.Terminated)
			assert.Equal(t, "run/"+cfg.Step, result.RunID)
		})
	}
	all.Wait()
}

// TestLeftBehind runs commands that leave a process behind.
func TestLeftBehind(t *testing.T) {
	t.Parallel()
	t.Run("is ended in time though it ignores SIGTERM and keeps the output open", func(t *testing.T) {
		f := newFixture(t)
		cmd := command(t, "daemon:ignore:TERM,INT;print:"+ready+";stay")
		cmd.Stdout = new(strings.Builder)
		began := time.Now()
		result, err := f.run(cmd)
		require.NoError(t, err)
		require.Equal(t, 1, result.LeftBehind)
		within(t, time.Second+slack, began)
	})
	t.Run("stays with KeepBackground whatever runs after it, though nothing marks it", func(t *testing.T) {
		f := newFixture(t)
		f.cfg.KeepBackground = true
		cmd := command(t, "daemon:unmark;print:"+ready+";stay")
		_, err := f.run(cmd)
		require.NoError(t, err)
		for range 5 {
			_, err := newFixture(t).run(command(t, "daemon:print:"+ready+";stay"))
			require.NoError(t, err)
		}
		left := processesWith(tokenOf(cmd))
		require.Len(t, left, 1)
		require.NoError(t, syscall.Kill(left[0], syscall.SIGKILL))
		eventually(t, "it ends", func() bool { return len(processesWith(tokenOf(cmd))) == 0 })
	})
	t.Run("goes on writing with KeepBackground, whatever its output goes to", func(t *testing.T) {
		file, err := os.Create(filepath.Join(t.TempDir(), "out"))
		require.NoError(t, err)
		defer file.Close()
		reader, pipe, err := os.Pipe()
		require.NoError(t, err)
		defer reader.Close()
		defer pipe.Close()
		go func() { _, _ = io.Copy(io.Discard, reader) }()
		for name, to := range map[string]io.Writer{
			"a buffer": &bytes.Buffer{}, "nothing": nil, "a file": file, "a pipe": pipe,
		} {
			t.Run(name, func(t *testing.T) {
				f := newFixture(t)
				f.cfg.KeepBackground, f.cfg.NoOutput = true, longTime
				f.cfg.Terminal = []*regexp.Regexp{regexp.MustCompile("never")}
				log := filepath.Join(t.TempDir(), "talked")
				cmd := command(t, "serve:"+log)
				cmd.Stdout, cmd.Stderr = to, to
				result, err := f.run(cmd)
				require.NoError(t, err)
				require.NoError(t, result.OutputErr)
				require.Zero(t, result.LeftBehind)
				left := processesWith(tokenOf(cmd))
				require.Len(t, left, 1)
				before := size(log)
				eventually(t, "it has written more than a pipe holds", func() bool { return size(log) > before+200*7 })
				require.NoError(t, syscall.Kill(left[0], syscall.SIGKILL))
				eventually(t, "it ends", func() bool { return len(processesWith(tokenOf(cmd))) == 0 })
			})
		}
	})
	t.Run("does not stay after a trip, even with KeepBackground", func(t *testing.T) {
		f := newFixture(t)
		f.cfg.KeepBackground, f.cfg.Terminal = true, readyLine
		result, _ := f.stalled(command(t, "daemon:print:"+ready+";stay", "print:"+ready, "stay"))
		require.Equal(t, 2, result.Sent[0].Processes)
	})
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
