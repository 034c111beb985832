package main_test

import (
	"bufio"
	"bytes"
	"context"
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
	"testing/synctest"
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

// says fails the test unless the program's standard error has the texts.
func (o outcome) says(t *testing.T, texts ...string) outcome {
	t.Helper()
	for _, text := range texts {
		require.Contains(t, o.stderr, text)
	}
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
	o := program(t, "version").must(t, 0)
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
	help := program(t, "--help").must(t, 0)
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
		o := program(t, strings.Fields(line)...).must(t, 125)
		require.Equal(t, want, o.stderr, line)
		require.Empty(t, o.stdout, line)
	}
}

// TestRetired expects what to do instead for each command and flag of a version before.
func TestRetired(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "retired.txt"))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		named, instead, _ := strings.Cut(strings.TrimSpace(line), ": ")
		kind, name, _ := strings.Cut(named, " ")
		want := "watchdog: " + name + " is gone; " + instead + "\n"
		switch kind {
		case "command":
			o := program(t, name, "--json").must(t, 125)
			require.Equal(t, want+"watchdog --help says how it is used\n", o.stderr)
			require.Equal(t, outcome{"", want, 125}, program(t, "help", name))
		case "flag":
			command, flag, _ := strings.Cut(name, " ")
			o := program(t, command, flag, "x").must(t, 125)
			require.Equal(t, want+"watchdog "+command+" --help says how it is used\n", o.stderr)
			require.Equal(t, o, program(t, command, flag+"=x"))
		}
	}
}

func TestParseRun(t *testing.T) {
	t.Parallel()
	parallel(t, "the model of run alone takes a command line as that of all commands does", func(t *testing.T) {
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
	parallel(t, "the model of run alone takes no other command line", func(t *testing.T) {
		for _, line := range []string{"run --help", "run -h", "run --no-outputs 1s true", "run --listen x true", "version"} {
			_, _, err := main.ParseRun(strings.Fields(line))
			require.Error(t, err, line)
		}
	})
	parallel(t, "a variable of another command is no mistake", func(t *testing.T) {
		o := programIn(t, []string{"WATCHDOG_LISTEN=127.0.0.1:0"}, "run", "--", "echo", "done")
		require.Equal(t, "done\n", o.stdout)
		require.Empty(t, o.stderr)
		require.Zero(t, o.status)
	})
}

// parallel runs a subtest beside others.
func parallel(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		test(t)
	})
}

// compare compares a text with a golden file.
func compare(t *testing.T, name, got string) {
	t.Helper()
	golden.Compare(t, filepath.Join("testdata", name+".golden"), got)
}

// A sent is a signal that is sent some time after the last one.
type sent struct {
	sig   syscall.Signal
	after time.Duration
}

func TestRepeatedSignals(t *testing.T) {
	t.Parallel()
	const (
		TERM, HUP, INT  = syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT
		second, quarter = time.Second, 250 * time.Millisecond
	)
	type signals = []sent
	for name, c := range map[string]struct {
		sent   signals
		shared bool // the terminal
		ended  int32
		killed syscall.Signal
	}{
		"a SIGTERM ends the command":                       {signals{{TERM, 0}}, false, 1, 0},
		"SIGTERM to a child and its group is one":          {signals{{TERM, 0}, {TERM, 0}}, false, 1, 0},
		"SIGHUP to a child and its group is one":           {signals{{HUP, 0}, {HUP, 0}}, false, 1, 0},
		"SIGINT to a child and its group is one":           {signals{{INT, 0}, {INT, 0}}, false, 1, 0},
		"so is a third SIGTERM":                            {signals{{TERM, 0}, {TERM, 1}, {TERM, second - 1}}, false, 1, 0},
		"a SIGTERM after more than a second is a second":   {signals{{TERM, 0}, {TERM, second + 1}}, false, 1, TERM},
		"a SIGHUP after more than a second is a second":    {signals{{HUP, 0}, {HUP, second + 1}}, false, 1, HUP},
		"a SIGINT after a quarter of a second is a repeat": {signals{{INT, 0}, {INT, quarter}}, false, 1, 0},
		"a SIGINT after more than that is a person":        {signals{{INT, 0}, {INT, quarter + 1}}, false, 1, INT},
		"repeats do not make the time longer":              {signals{{TERM, 0}, {TERM, second}, {TERM, 1}}, false, 1, TERM},
		"another signal is a second one at once":           {signals{{TERM, 0}, {HUP, 0}}, false, 1, HUP},
		"an interrupt after a SIGTERM is one":              {signals{{TERM, 0}, {INT, 1}}, false, 1, INT},
		"a SIGTERM after an interrupt is one":              {signals{{INT, 0}, {TERM, 1}}, false, 1, TERM},
		"a repeat does not hide another signal":            {signals{{TERM, 0}, {TERM, 0}, {INT, 0}}, false, 1, INT},
		"a terminal's interrupt is for the command":        {signals{{INT, 0}, {INT, second}}, true, 0, 0},
		"after some of those SIGTERM is the first one":     {signals{{INT, 0}, {TERM, 1}, {TERM, 1}}, true, 1, 0},
		"after SIGTERM a terminal's interrupt kills":       {signals{{TERM, 0}, {INT, second}}, true, 1, INT},
	} {
		parallel(t, name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s main.Signals
				received := make(chan os.Signal, len(c.sent))
				stopped, stop := context.WithCancel(t.Context())
				defer stop()
				go s.Heed(stopped, received, c.shared)
				for _, next := range c.sent {
					time.Sleep(next.after)
					received <- next.sig
					synctest.Wait()
				}
				require.Equal(t, c.ended, s.Ended.Load(), "how often the command is ended")
				require.Equal(t, int32(c.killed), s.Killed.Load(), "the signal that kills")
			})
		})
	}
}

func TestLateInterrupt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		shared bool // the terminal
		ended  syscall.Signal
		after  time.Duration // the command's end; 0 is never
		want   syscall.Signal
	}{
		"an interrupt of the terminal may come after the command's end": {true, syscall.SIGINT, 200 * time.Millisecond,
			syscall.SIGINT},
		"one that never comes was not the terminal's": {true, syscall.SIGINT, 0, 0},
		"other signals are not waited for":            {true, syscall.SIGTERM, time.Millisecond, 0},
		"nor is one while the terminal is not shared": {false, syscall.SIGINT, time.Millisecond, 0},
		"nor is one if the command ended without one": {true, 0, time.Millisecond, 0},
		"an interrupt a second later is another one":  {true, syscall.SIGINT, time.Second, 0},
	} {
		parallel(t, name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				received := make(chan os.Signal, 1)
				stopped, stop := context.WithCancel(t.Context())
				defer stop()
				if c.after > 0 {
					defer time.AfterFunc(c.after, func() { received <- syscall.SIGINT }).Stop()
				}
				require.Equal(t, c.want, main.SignalOf(stopped, received, c.shared, c.ended))
			})
		})
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, node := range main.Model().Leaves(true) {
		t.Run(node.Name+" has help with examples, in 80 columns", func(t *testing.T) {
			require.Contains(t, node.Detail, "Examples:\n  ")
			require.Contains(t, node.Detail, "watchdog "+node.Name)
			for line := range strings.SplitSeq(node.Detail, "\n") {
				require.LessOrEqual(t, len(line), 82, line)
			}
			o := program(t, node.Name, "--help").must(t, 0)
			require.Contains(t, o.stdout, "Examples:\n")
		})
	}
}
