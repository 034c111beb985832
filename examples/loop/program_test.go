package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	loop "github.com/seed62658d38/watchdog/examples/loop"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// program returns the real program with its flags.
func program(t *testing.T, flags ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, flags...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0")
	return cmd
}

// outcome is the exit status and the output of a run.
type outcome struct {
	code           int
	stdout, stderr string
}

func finish(t *testing.T, cmd *exec.Cmd) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// TestProgram plays everything in real time over real connections, on a store in a file. The tests with fake time check
// when things happen. The wall clock of five seconds counts what the file takes to answer an attach, so that a machine
// which stops for a second changes the outcome: TestProgram has three attempts.
func TestProgram(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "not there yet")
	var done outcome
	for range 3 {
		if done = finish(t, program(t, "-json", "-state", state)); done.code == 0 {
			break
		}
	}
	require.Zerof(t, done.code, "%s\n%s", done.stdout, done.stderr)
	var results []loop.Result
	require.NoError(t, json.Unmarshal([]byte(done.stdout), &results), done.stdout)
	require.Len(t, results, 16)
	assert.NotContains(t, done.stdout, "null")
	assert.Contains(t, done.stderr, "== healthy", "the progress goes to standard error")

	store, err := sqlite.Open(t.Context(), filepath.Join(state, "events.db"))
	require.NoError(t, err)
	defer store.Close()
	for _, r := range results {
		assert.True(t, r.AsExpected, "%+v", r)
		assert.LessOrEqual(t, r.Usage[0].Used+r.Usage[0].Admitted, r.Usage[0].Allowed)
		stored, err := store.Read(t.Context(), watchdog.AggregateType, r.RunID)
		require.NoError(t, err)
		stored = slices.DeleteFunc(stored, func(e watchdog.Event) bool { return e.Type == watchdog.EventCheckpoint })
		assert.Len(t, stored, len(r.Events))
	}
}

func TestInterrupt(t *testing.T) {
	t.Parallel()
	cmd := program(t, "-scenario", "absent")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var printed strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		printed.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "a person is asked") {
			require.NoError(t, cmd.Process.Signal(os.Interrupt))
		}
	}
	require.Error(t, cmd.Wait())
	assert.Equal(t, 1, cmd.ProcessState.ExitCode())
	assert.Contains(t, printed.String(), "failed: approval: ")
	assert.Contains(t, printed.String(), "event: interrupt")
	assert.NotContains(t, printed.String(), "event: cancel", "the parent is not the watchdog")
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for want, flags := range map[string][]string{
		`-scenario "nap" does not exist; use all or healthy`: {"-scenario", "nap"},
		`unexpected argument "stall"; use flags only`:        {"stall"},
		"leave out -events":                     {"-json", "-events"},
		"flag provided but not defined: -evens": {"-evens"},
	} {
		t.Run("refused: "+want, func(t *testing.T) {
			t.Parallel()
			refused := finish(t, program(t, flags...))
			assert.Equal(t, 2, refused.code)
			assert.Contains(t, refused.stderr, want)
			assert.Contains(t, refused.stderr, "loop -h")
			assert.Empty(t, refused.stdout)
		})
	}
	t.Run("-h prints the help with the scenarios and succeeds", func(t *testing.T) {
		t.Parallel()
		help := finish(t, program(t, "-h"))
		assert.Zero(t, help.code)
		assert.Contains(t, help.stdout, "-scenario NAME")
		assert.Contains(t, help.stdout, "hung-tool")
		assert.Empty(t, help.stderr)
	})
	t.Run("an impossible state directory is an error", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		refused := finish(t, program(t, "-scenario", "healthy", "-state", file))
		assert.Equal(t, 1, refused.code)
		assert.Contains(t, refused.stderr, file)
	})
}
