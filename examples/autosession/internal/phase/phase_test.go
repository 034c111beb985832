package phase_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/examples/autosession/internal/phase"
	"github.com/seed62658d38/watchdog/stall"
)

// asCommand makes this test binary the command of a phase; see commands_test.go.
const asCommand = "PHASE_TEST_COMMAND"

// quickExit keeps the race detector from waiting a second at the end of each process.
const quickExit = "GORACE=atexit_sleep_ms=0"

func TestMain(m *testing.M) {
	phase.HangIfAsked()
	if command := os.Getenv(asCommand); command != "" {
		os.Exit(commands[command]())
	}
	goleak.VerifyTestMain(m)
}

// A bed runs one command as a phase.
type bed struct {
	t      *testing.T
	runner phase.Runner
	phase  phase.Phase
}

func newBed(t *testing.T, command string) *bed {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	return &bed{t, phase.Runner{
		Dir: dir, Env: append(os.Environ(), asCommand+"="+command, quickExit),
		Log: func(name string) string { return filepath.Join(dir, name+".log") },
	}, phase.Phase{Name: "step", Command: []string{self}}}
}

func (b *bed) run(ctx context.Context) error { return b.runner.Run(ctx, b.phase) }

func (b *bed) log() string {
	b.t.Helper()
	text, err := os.ReadFile(b.runner.Log("step"))
	require.NoError(b.t, err)
	return string(text)
}

func TestRun(t *testing.T) {
	t.Run("a command that ends well is done, and its output in the log", func(t *testing.T) {
		b := newBed(t, "speak")
		require.NoError(t, b.run(t.Context()))
		assert.Equal(t, "out\nerr\n", b.log())
		require.NoError(t, b.run(t.Context()))
		assert.Equal(t, "out\nerr\n", b.log(), "the log is of the last time")
	})
	t.Run("it runs in its directory", func(t *testing.T) {
		b := newBed(t, "where")
		require.NoError(t, b.run(t.Context()))
		dir, err := filepath.EvalSymlinks(b.runner.Dir)
		require.NoError(t, err)
		assert.Equal(t, dir, b.log())
	})
	t.Run("a command that fails is a failure that names the phase and not the output", func(t *testing.T) {
		b := newBed(t, "fail")
		err := b.run(t.Context())
		var failed *phase.Failure
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, b.runner.Log("step"), failed.Log)
		var exit *stall.ExitError
		require.ErrorAs(t, err, &exit)
		assert.Equal(t, 7, exit.Code)
		assert.NotContains(t, err.Error(), "secret")
		assert.Equal(t, "phase step: "+b.phase.String()+": exit status 7", err.Error())
	})
	t.Run("a command that is not there is a failure", func(t *testing.T) {
		b := newBed(t, "speak")
		b.phase.Command = []string{"no-such-command"}
		require.ErrorIs(t, b.run(t.Context()), exec.ErrNotFound)
	})
	t.Run("a log that cannot be opened is an error before anything is run", func(t *testing.T) {
		b := newBed(t, "speak")
		b.runner.Log = func(string) string { return filepath.Join(b.runner.Dir, "none", "log") }
		require.ErrorIs(t, b.run(t.Context()), os.ErrNotExist)
	})
	t.Run("in a context that has ended nothing is run", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		over := errors.New("over")
		cancel(over)
		b := newBed(t, "speak")
		require.ErrorIs(t, b.run(ctx), over)
		assert.Empty(t, b.log())
	})
}

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for _, c := range []struct {
		name, text string
		lines      int
		want       string
	}{
		{"the last lines", "a\nb\nc\n", 2, "b\nc"},
		{"all of a short log", "a\nb\n", 5, "a\nb"},
		{"a line without an end", "a\nb", 1, "b"},
		{"nothing of an empty log", "", 3, ""},
		{"the end of what is one long line", strings.Repeat("x", 1<<20), 3, strings.Repeat("x", 16<<10)},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
			got, err := phase.Tail(path, c.lines)
			require.NoError(t, err)
			assert.Equal(t, c.want, string(got))
		})
	}
	t.Run("a log that is not there is an error", func(t *testing.T) {
		_, err := phase.Tail(path+"x", 1)
		require.ErrorIs(t, err, os.ErrNotExist)
	})
}

func TestNames(t *testing.T) {
	assert.Equal(t, "plan, build, vet, test", phase.Names())
	assert.True(t, phase.Named("vet"))
	assert.False(t, phase.Named("deploy"))
	assert.Equal(t, "go build ./...", fmt.Sprint(phase.Pipeline[1]))
}
