package phase_test

import (
	"context"
	"errors"
	"flag"
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
)

// asCommand makes this test binary the command of a phase; see commands_test.go.
const asCommand = "PHASE_TEST_COMMAND"

// quickExit makes the race detector exit at once instead of after a second.
const quickExit = "GORACE=atexit_sleep_ms=0"

func TestMain(m *testing.M) {
	phase.HangIfAsked()
	if command := os.Getenv(asCommand); command != "" {
		os.Exit(commands[command]())
	}
	_ = flag.Set("test.parallel", "8") // most wait for a grace
	goleak.VerifyTestMain(m)
}

// A fixture runs one command as a phase.
type fixture struct {
	t      *testing.T
	runner phase.Runner
	phase  phase.Phase
}

func newFixture(t *testing.T, command string) *fixture {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	return &fixture{t, phase.Runner{
		Dir: dir, Env: append(os.Environ(), asCommand+"="+command, quickExit),
		Log: func(name string) string { return filepath.Join(dir, name+".log") },
	}, phase.Phase{Name: "step", Command: []string{self}}}
}

func (f *fixture) run(ctx context.Context) error { return f.runner.Run(ctx, f.phase) }

func (f *fixture) log() string {
	f.t.Helper()
	text, err := os.ReadFile(f.runner.Log("step"))
	require.NoError(f.t, err)
	return string(text)
}

func TestRun(t *testing.T) {
	t.Run("a command that succeeds has its output in the log", func(t *testing.T) {
		f := newFixture(t, "speak")
		require.NoError(t, f.run(t.Context()))
		assert.Equal(t, "out\nerr\n", f.log())
		require.NoError(t, f.run(t.Context()))
		assert.Equal(t, "out\nerr\n", f.log(), "the second run replaces the log")
	})
	t.Run("it runs in its directory", func(t *testing.T) {
		f := newFixture(t, "where")
		require.NoError(t, f.run(t.Context()))
		dir, err := filepath.EvalSymlinks(f.runner.Dir)
		require.NoError(t, err)
		assert.Equal(t, dir, f.log())
	})
	t.Run("the error of a failed command names the phase and not the output", func(t *testing.T) {
		f := newFixture(t, "fail")
		err := f.run(t.Context())
		var failed *phase.Failure
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, f.runner.Log("step"), failed.Log)
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		assert.Equal(t, 7, exit.ExitCode())
		assert.NotContains(t, err.Error(), "secret")
		assert.Equal(t, "phase step: "+f.phase.String()+": exit status 7", err.Error())
	})
	t.Run("a missing command is a failure", func(t *testing.T) {
		f := newFixture(t, "speak")
		f.phase.Command = []string{"no-such-command"}
		require.ErrorIs(t, f.run(t.Context()), exec.ErrNotFound)
	})
	t.Run("a log that cannot be opened is an error before the command starts", func(t *testing.T) {
		f := newFixture(t, "speak")
		f.runner.Log = func(string) string { return filepath.Join(f.runner.Dir, "none", "log") }
		require.ErrorIs(t, f.run(t.Context()), os.ErrNotExist)
	})
	t.Run("nothing runs in a context that has ended", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		over := errors.New("over")
		cancel(over)
		f := newFixture(t, "speak")
		require.ErrorIs(t, f.run(ctx), over)
		assert.Empty(t, f.log())
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
		{"the end of one long line", strings.Repeat("x", 1<<20), 3, strings.Repeat("x", 16<<10)},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
			got, err := phase.Tail(path, c.lines)
			require.NoError(t, err)
			assert.Equal(t, c.want, string(got))
		})
	}
	t.Run("a missing log is an error", func(t *testing.T) {
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
