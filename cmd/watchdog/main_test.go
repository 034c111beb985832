package main_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	main "github.com/seed62658d38/watchdog/cmd/watchdog"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
)

// programVariable has the test binary be the program.
const programVariable = "WATCHDOG_TEST_PROGRAM"

// postgresServer is the server of all tests. Each test has a database of its own.
var postgresServer pgtest.Shared

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		_ = os.Unsetenv(programVariable)
		main.Main()
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise every program ends a second late
	_ = flag.Set("test.parallel", "16")          // most tests wait for processes, and not for a processor
	code := m.Run()
	for _, failed := range []error{postgresServer.Close(), goleak.Find()} {
		if failed != nil && code == 0 {
			fmt.Fprintln(os.Stderr, failed)
			code = 1
		}
	}
	os.Exit(code)
}

// A saidText can be read while a program prints it.
type saidText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *saidText) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(text)
}

func (s *saidText) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// An outcome is what a run of the program left.
type outcome struct {
	stdout, stderr string
	status         int
}

// program runs the program with a command line, without the variables that it reads.
func program(t *testing.T, args ...string) outcome {
	t.Helper()
	return programIn(t, nil, args...)
}

// programIn runs the program with these variables of those that it reads.
func programIn(t *testing.T, variables []string, args ...string) outcome {
	t.Helper()
	return finish(t, programCmd(t, variables, args...))
}

// finish runs a program to its end.
func finish(t *testing.T, cmd *exec.Cmd) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exited *exec.ExitError
	if err := cmd.Run(); err != nil {
		require.ErrorAs(t, err, &exited)
	}
	return outcome{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// programCmd is a command that runs the program.
func programCmd(tb testing.TB, variables []string, args ...string) *exec.Cmd {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), os.Args[0], args...)
	cmd.Env = append(slices.DeleteFunc(cmd.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "WATCHDOG_")
	}), append(variables, programVariable+"=1")...)
	return cmd
}

func TestVersion(t *testing.T) {
	t.Parallel()
	o := program(t, "version")
	assert.Zero(t, o.status)
	assert.Regexp(t, `^watchdog \S+, go1\.\d+\S*, `+runtime.GOOS+"/"+runtime.GOARCH+"\n$", o.stdout)
	assert.Equal(t, o, program(t, "--version"))
	assert.Equal(t, o, program(t, "-V"))
	o = program(t, "--version", "--json")
	var v map[string]string
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &v))
	assert.Equal(t, runtime.Version(), v["go"])
}

func TestHelpCommand(t *testing.T) {
	t.Parallel()
	help := program(t, "--help")
	assert.Zero(t, help.status)
	assert.Equal(t, help, program(t, "help"))
	assert.Equal(t, help, program(t, "-h"))
	assert.Equal(t, outcome{stderr: help.stdout, status: 125}, program(t), "no command is a mistake")
	assert.Equal(t, program(t, "sessions", "--help"), program(t, "help", "sessions"))
	assert.Equal(t, outcome{
		stderr: "watchdog: there is no command \"nosuch\"; watchdog --help lists those that there are\n", status: 125,
	}, program(t, "help", "nosuch"))
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"nosuch": "watchdog: unexpected argument nosuch\nwatchdog --help says how it is used\n",
		"version --jsno": "watchdog: unknown flag --jsno, did you mean \"--json\"?\n" +
			"watchdog version --help says how it is used\n",
	} {
		o := program(t, strings.Fields(line)...)
		assert.Equal(t, 125, o.status, line)
		assert.Equal(t, want, o.stderr, line)
		assert.Empty(t, o.stdout, line)
	}
}

func TestParseRun(t *testing.T) {
	t.Parallel()
	t.Run("the model of run alone takes a command line as that of all commands does", func(t *testing.T) {
		t.Parallel()
		for _, line := range []string{
			"run", "run true", "run -- true -h", "run true --help", "run --json --store sqlite:x --config y true --store z",
			"run --no-output 5m --wall-clock=1h --terminal a,b --terminal c --signal TERM -- make run",
			"run --probe p --probe-interval 1s --on-probe-error stall --stall-threshold 4 --keep-background x",
			"run --id why --iteration 3 -- run run",
		} {
			alone, of, err := main.ParseRun(strings.Fields(line))
			require.NoError(t, err, line)
			assert.Equal(t, of, alone, line)
		}
	})
	t.Run("the model of run alone takes no other command line", func(t *testing.T) {
		t.Parallel()
		for _, line := range []string{"run --help", "run -h", "run --no-outputs 1s true", "run --listen x true", "version"} {
			_, _, err := main.ParseRun(strings.Fields(line))
			assert.Error(t, err, line)
		}
	})
	t.Run("a variable of another command is no mistake", func(t *testing.T) {
		t.Parallel()
		o := programIn(t, []string{"WATCHDOG_LISTEN=127.0.0.1:0"}, "run", "--", "echo", "done")
		assert.Equal(t, "done\n", o.stdout)
		assert.Empty(t, o.stderr)
		assert.Zero(t, o.status)
	})
}

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares a text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}
