package stall_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/stall"
)

func TestInput(t *testing.T) {
	t.Parallel()
	echo := func(t *testing.T, in io.Reader) string {
		t.Helper()
		cmd := command(t, "echo")
		cmd.Stdin = in
		var out strings.Builder
		cmd.Stdout = &out
		_, err := newFixture(t).run(cmd)
		require.NoError(t, err)
		return out.String()
	}
	text := strings.Repeat("much more than a pipe holds\n", 100_000)
	t.Run("from a reader", func(t *testing.T) { require.Equal(t, text, echo(t, strings.NewReader(text))) })
	t.Run("from nothing", func(t *testing.T) { require.Empty(t, echo(t, nil)) })
	t.Run("from a file", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "in")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		file, err := os.Open(path)
		require.NoError(t, err)
		defer file.Close()
		require.Equal(t, text, echo(t, file))
		require.NoError(t, file.Close(), "Run did not close it")
	})
	t.Run("that nobody reads does not delay Run", func(t *testing.T) {
		cmd := command(t)
		cmd.Stdin = strings.NewReader(text)
		_, err := newFixture(t).run(cmd)
		require.NoError(t, err)
	})
}

func TestOutput(t *testing.T) {
	t.Parallel()
	t.Run("to two writers keeps them apart", func(t *testing.T) {
		cmd := command(t, "print:a", "warn:b")
		var out, errs strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errs
		_, err := newFixture(t).run(cmd)
		require.NoError(t, err)
		require.Equal(t, "a\nb\n", out.String()+errs.String())
		require.Equal(t, "a\n", out.String())
	})
	t.Run("to a closed reader ends the command, and not the host", func(t *testing.T) {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		defer w.Close()
		require.NoError(t, r.Close())
		cmd := command(t, "flood:"+floodSize, "stay")
		cmd.Stdout = w
		f := newFixture(t)
		f.cfg.NoOutput = longTime
		result, err := f.run(cmd)
		require.Error(t, err)
		require.True(t, result.Finished)
		require.Error(t, result.OutputErr)
	})
	t.Run("to a writer that fails is reported", func(t *testing.T) {
		cmd := command(t, "print:a")
		cmd.Stdout = failing{}
		result, err := newFixture(t).run(cmd)
		require.NoError(t, err)
		require.ErrorIs(t, result.OutputErr, errEnough)
	})
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errEnough }

// TestActivitySource checks that only the output that counts is a sign of life.
func TestActivitySource(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		source stall.ActivitySource
		one    bool
		stalls bool
	}{
		{stall.ActivityStdout, false, false},
		{stall.ActivityStderr, false, true},
		{stall.ActivityStderr, true, false},
	} {
		t.Run(fmt.Sprintf("%s, one writer %v", c.source, c.one), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.cfg.ActivitySource, f.cfg.NoOutput = c.source, 3*time.Second
			steps := "every:50ms:x"
			if !c.stalls {
				steps += ":80" // four seconds
			}
			cmd := command(t, steps)
			if c.one {
				var out strings.Builder
				cmd.Stdout, cmd.Stderr = &out, &out
			}
			result, err := f.run(cmd)
			require.Equal(t, c.stalls, err != nil, "%v", err)
			require.Equal(t, c.stalls, !result.Finished)
		})
	}
}

// TestOutputFile checks that Run watches an output that is a file.
func TestOutputFile(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T) *os.File {
		t.Helper()
		file, err := os.Create(filepath.Join(t.TempDir(), "out"))
		require.NoError(t, err)
		t.Cleanup(func() { _ = file.Close() })
		return file
	}
	t.Run("one that grows is not a stall", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.cfg.NoOutput = 3 * time.Second
		cmd, file := command(t, "every:100ms:x:40"), open(t)
		cmd.Stdout = file
		_, err := f.run(cmd)
		require.NoError(t, err)
		text, err := os.ReadFile(file.Name())
		require.NoError(t, err)
		require.Equal(t, strings.Repeat("x\n", 40), string(text))
	})
	t.Run("one that does not grow is a stall, in time", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.cfg.NoOutput = 2 * time.Second
		cmd := command(t, "print:x", "stay")
		cmd.Stdout = open(t)
		began := time.Now()
		result, _ := f.stalled(cmd)
		require.Equal(t, []string{"stall/no_output"}, result.Trip.Fingerprints, "there was some")
		require.Less(t, result.Trip.ObservedAt.Sub(began), 2*f.cfg.NoOutput+slack)
	})
}

func descriptors(tb testing.TB) int {
	tb.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	require.NoError(tb, err)
	return len(all)
}
