package stall_test

import (
	"bytes"
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

func TestStandardInput(t *testing.T) {
	t.Parallel()
	echo := func(t *testing.T, in io.Reader) string {
		t.Helper()
		cmd := play(t, "echo")
		cmd.Stdin = in
		var out strings.Builder
		cmd.Stdout = &out
		_, err := newBed(t).run(cmd)
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
		require.NoError(t, file.Close(), "it stays the host's")
	})
	t.Run("that nobody reads keeps nothing", func(t *testing.T) {
		cmd := play(t)
		cmd.Stdin = strings.NewReader(text)
		_, err := newBed(t).run(cmd)
		require.NoError(t, err)
	})
}

func TestOutput(t *testing.T) {
	t.Parallel()
	t.Run("to one writer keeps the order of both", func(t *testing.T) {
		cmd := play(t, "orders:2000")
		var out, want bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		b := newBed(t)
		b.cfg.NoOutput = patient
		_, err := b.run(cmd)
		require.NoError(t, err)
		for n := range 2000 {
			fmt.Fprintln(&want, n)
		}
		require.Equal(t, want.String(), out.String())
	})
	t.Run("to two writers keeps them apart", func(t *testing.T) {
		cmd := play(t, "print:a", "warn:b")
		var out, errs strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errs
		_, err := newBed(t).run(cmd)
		require.NoError(t, err)
		require.Equal(t, "a\nb\n", out.String()+errs.String())
		require.Equal(t, "a\n", out.String())
	})
	t.Run("to a reader that closed ends the command and no host", func(t *testing.T) {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		defer w.Close()
		require.NoError(t, r.Close())
		cmd := play(t, "flood:"+floodSize, "stay")
		cmd.Stdout = w
		b := newBed(t)
		b.cfg.NoOutput = patient
		result, err := b.run(cmd)
		require.Error(t, err)
		require.True(t, result.Finished)
		require.Error(t, result.OutputErr)
	})
	t.Run("to a writer that fails is told", func(t *testing.T) {
		cmd := play(t, "print:a")
		cmd.Stdout = failing{}
		result, err := newBed(t).run(cmd)
		require.NoError(t, err)
		require.ErrorIs(t, result.OutputErr, errEnough)
	})
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errEnough }

func TestASlowReaderIsNoStall(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.cfg.NoOutput = 1500 * time.Millisecond
	cmd := play(t, "flood:"+floodSize)
	got := int64(0)
	pause := &trigger{func() { time.Sleep(3500 * time.Millisecond) }}
	cmd.Stdout = io.MultiWriter(pause, counter{&got, 0})
	result, err := b.run(cmd)
	require.NoError(t, err)
	require.Nil(t, result.Trip)
	require.Equal(t, floodSize, fmt.Sprint(got), "nothing was lost")
}

func TestOnlyTheOutputThatCountsIsASignOfLife(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		activity stall.ActivitySource
		one      bool
		stalls   bool
	}{{stall.ActivityStdout, false, false}, {stall.ActivityStderr, false, true}, {stall.ActivityStderr, true, false}, {stall.ActivityAny, false, false}} {
		t.Run(fmt.Sprintf("%s, one writer %v", c.activity, c.one), func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.cfg.ActivitySource, b.cfg.NoOutput = c.activity, 2*time.Second
			cmd := play(t, "every:50ms:x:60")
			if c.one {
				var out strings.Builder
				cmd.Stdout, cmd.Stderr = &out, &out
			}
			result, err := b.run(cmd)
			require.Equal(t, c.stalls, err != nil, "%v", err)
			require.Equal(t, c.stalls, !result.Finished)
		})
	}
}

func TestOutputToAFileIsWatched(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T) *os.File {
		t.Helper()
		file, err := os.Create(filepath.Join(t.TempDir(), "out"))
		require.NoError(t, err)
		t.Cleanup(func() { _ = file.Close() })
		return file
	}
	t.Run("one that grows is no stall", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.cfg.NoOutput = 2 * time.Second
		cmd, file := play(t, "every:100ms:x:35"), open(t)
		cmd.Stdout = file
		_, err := b.run(cmd)
		require.NoError(t, err)
		text, err := os.ReadFile(file.Name())
		require.NoError(t, err)
		require.Equal(t, strings.Repeat("x\n", 35), string(text))
	})
	t.Run("one that does not is, in time", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.cfg.NoOutput = time.Second
		cmd := play(t, "print:x", "stay")
		cmd.Stdout = open(t)
		began := time.Now()
		result, _ := b.stalled(cmd)
		require.Equal(t, []string{"stall/no_output"}, result.Trip.Fingerprints, "there was some")
		require.Less(t, result.Trip.ObservedAt.Sub(began), 2*b.cfg.NoOutput+time.Second)
	})
}

func TestAFileThatWasWatchedIsLetGoOf(t *testing.T) {
	before := descriptors(t)
	for range 12 {
		b := newBed(t)
		b.cfg.NoOutput = patient
		file, err := os.Create(filepath.Join(t.TempDir(), "out"))
		require.NoError(t, err)
		cmd := play(t)
		cmd.Stdout = file
		_, err = b.run(cmd)
		require.NoError(t, err)
		require.NoError(t, file.Close())
	}
	require.Less(t, descriptors(t), before+8)
}

func descriptors(tb testing.TB) int {
	tb.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	require.NoError(tb, err)
	return len(all)
}

func TestACommandThatPrintsNothingHasAFingerprintOfItsOwn(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.cfg.NoOutput, b.cfg.FingerprintPrefix = 300*time.Millisecond, "ci/nightly"
	result, err := b.stalled(play(t, "stay"))
	require.Equal(t, []string{"ci/nightly/stall/no_output:never"}, result.Trip.Fingerprints)
	require.GreaterOrEqual(t, err.Stop.Elapsed, b.cfg.NoOutput)
	require.Equal(t, b.cfg.NoOutput, err.Stop.Budget)
	require.NotErrorIs(t, err, stall.ErrSurvivors)
}
