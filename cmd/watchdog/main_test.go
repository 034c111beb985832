package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	main "github.com/seed62658d38/watchdog/cmd/watchdog"
	"github.com/seed62658d38/watchdog/internal/golden"
	"github.com/seed62658d38/watchdog/internal/locked"
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

// An outcome is what a run of the program left.
type outcome struct {
	stdout, stderr string
	status         int
}

// must fails the test unless the program ended with the status.
func (o outcome) must(t *testing.T, status int) outcome {
	t.Helper()
	require.Equalf(t, status, o.status, "exit status; it printed\n%s\n%s", o.stdout, o.stderr)
	return o
}

// A live is a program that runs.
type live struct {
	*testing.T
	cmd    *exec.Cmd
	lines  *bufio.Reader
	seen   []string // the lines of its standard output that were read
	stderr *locked.Buffer
}

// begin starts a program.
func begin(t *testing.T, cmd *exec.Cmd) *live {
	t.Helper()
	p := &live{T: t, cmd: cmd, stderr: &locked.Buffer{}}
	cmd.Stderr = p.stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	p.lines = bufio.NewReader(out)
	return p
}

// start starts a program and waits until its command has printed ready.
func start(t *testing.T, cmd *exec.Cmd) *live {
	t.Helper()
	p := begin(t, cmd)
	require.Equal(t, "ready", p.until(""))
	return p
}

// until reads lines until one has the text, and returns that one.
func (p *live) until(text string) string {
	p.Helper()
	for {
		line, err := p.lines.ReadString('\n')
		require.NoErrorf(p, err, "waiting for %q, it printed %q, %q and %q", text, p.seen, line, p.stderr)
		line = strings.TrimSuffix(line, "\n")
		p.seen = append(p.seen, line)
		if strings.Contains(line, text) {
			return line
		}
	}
}

// says waits until its standard error has the text.
func (p *live) says(text string) {
	p.Helper()
	require.Eventually(p, func() bool { return strings.Contains(p.stderr.String(), text) }, waitBound, 10*time.Millisecond, text)
}

func (p *live) signal(sig syscall.Signal) {
	p.Helper()
	require.NoError(p, p.cmd.Process.Signal(sig))
}

func (p *live) end() outcome {
	p.Helper()
	rest, err := io.ReadAll(p.lines)
	require.NoError(p, err)
	p.seen = append(p.seen, strings.FieldsFunc(string(rest), func(r rune) bool { return r == '\n' })...)
	p.cmd.Wait() // the status is returned
	return outcome{string(rest), p.stderr.String(), p.cmd.ProcessState.ExitCode()}
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
	require.Zero(t, o.status)
	require.Regexp(t, `^watchdog \S+, go1\.\d+\S*, `+runtime.GOOS+"/"+runtime.GOARCH+"\n$", o.stdout)
	require.Equal(t, o, program(t, "--version"))
	require.Equal(t, o, program(t, "-V"))
	o = program(t, "--version", "--json")
	var v map[string]string
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &v))
	require.Equal(t, runtime.Version(), v["go"])
}

func TestHelpCommand(t *testing.T) {
	t.Parallel()
	help := program(t, "--help")
	require.Zero(t, help.status)
	require.Equal(t, help, program(t, "help"))
	require.Equal(t, help, program(t, "-h"))
	require.Equal(t, outcome{stderr: help.stdout, status: 125}, program(t), "no command is a mistake")
	require.Equal(t, program(t, "sessions", "--help"), program(t, "help", "sessions"))
	require.Equal(t, outcome{
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
		require.Equal(t, 125, o.status, line)
		require.Equal(t, want, o.stderr, line)
		require.Empty(t, o.stdout, line)
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
			require.Equal(t, of, alone, line)
		}
	})
	t.Run("the model of run alone takes no other command line", func(t *testing.T) {
		t.Parallel()
		for _, line := range []string{"run --help", "run -h", "run --no-outputs 1s true", "run --listen x true", "version"} {
			_, _, err := main.ParseRun(strings.Fields(line))
			require.Error(t, err, line)
		}
	})
	t.Run("a variable of another command is no mistake", func(t *testing.T) {
		t.Parallel()
		o := programIn(t, []string{"WATCHDOG_LISTEN=127.0.0.1:0"}, "run", "--", "echo", "done")
		require.Equal(t, "done\n", o.stdout)
		require.Empty(t, o.stderr)
		require.Zero(t, o.status)
	})
}

// compare compares a text with a golden file.
func compare(t *testing.T, name, got string) {
	t.Helper()
	golden.Compare(t, filepath.Join("testdata", name+".golden"), got)
}
