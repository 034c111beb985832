package migrating_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/examples/migrating"
	"github.com/seed62658d38/watchdog/internal/escape"
)

// A command may be silent for noOutput: longer than a busy machine delays what it does. Patience bounds every wait; an idle
// machine needs seconds.
const (
	noOutput = 3 * time.Second
	patience = time.Minute
)

// A commandSide is one of the two hosts of commands.
type commandSide struct {
	run func(ctx context.Context, limit time.Duration, out io.Writer, name string, args ...string) error
	// told checks the error of a command that was silent.
	told func(t *testing.T, err error)
	// loses says that output is lost which the reader takes after the command's exit and WaitDelay.
	loses bool
	// daemons is how many processes are left of a command that has put one into a session of its own.
	daemons int
}

var commandSides = map[string]commandSide{
	"before": {run: migrating.ProcessGroupBefore, told: toldByHand, loses: true, daemons: 1},
	"after":  {run: migrating.ProcessGroupAfter, told: toldByCommandStop},
}

// toldByCommandStop checks that the error says which guard ended the command, and by which limit.
func toldByCommandStop(t *testing.T, err error) {
	t.Helper()
	var stop *watchdog.Stop
	require.ErrorAs(t, err, &stop)
	require.Equal(t, watchdog.CommandNoOutput, stop.Code)
	require.Equal(t, noOutput, stop.Budget)
	require.Greater(t, stop.Elapsed, noOutput)
}

// A command is this test binary as the steps of a child.
type command struct {
	*testing.T
	side  commandSide
	token string
	out   io.Writer
}

func newCommand(t *testing.T, s commandSide) *command {
	t.Helper()
	c := &command{t, s, fmt.Sprintf("%s%d", childPrefix, rand.Uint64()), io.Discard}
	t.Cleanup(func() {
		for _, left := range escape.WithToken(c.token) {
			assert.Fail(t, "a process is left", "%+v", left)
			_ = syscall.Kill(left.PID, syscall.SIGKILL)
		}
	})
	return c
}

func (c *command) run(ctx context.Context, limit time.Duration, steps ...string) error {
	path, err := os.Executable()
	require.NoError(c, err)
	return c.side.run(ctx, limit, c.out, path, append([]string{c.token}, steps...)...)
}

var commandTests = []struct {
	sentence string
	check    func(*testing.T, commandSide)
}{
	{"a command that prints nothing is ended after the limit, and the caller is told why", silentCommand},
	{"output begins the silence anew", printingCommand},
	{"a tool may have a longer limit", slowCommand},
	{"a reader that takes nothing is no silence of the command", unreadCommand},
	{"output that the reader takes after the command's exit is not lost", lateOutput},
	{"a host whose context is done starts nothing", unstartedCommand},
	{"a limit of 0 is off", unlimitedCommand},
	{"the end from outside ends it, and is not taken for silence", interruptedCommand},
	{"a command that fails by itself is an *exec.ExitError, and no error around it", failingCommand},
	{"a grandchild that ignores SIGTERM is killed", stubbornGrandchild},
	{"a daemon that holds the output open does not hold up the host", daemon},
}

// TestCommand is an integration test: it runs real processes in real time. A person's approval is no matter of a
// command, and a machine that sleeps cannot be had here.
func TestCommand(t *testing.T) {
	for name, s := range commandSides {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, test := range commandTests {
				t.Run(test.sentence, func(t *testing.T) {
					t.Parallel()
					test.check(t, s)
				})
			}
		})
	}
}

func silentCommand(t *testing.T, s commandSide) {
	began := time.Now()
	s.told(t, newCommand(t, s).run(t.Context(), noOutput, "sleep:1h"))
	require.GreaterOrEqual(t, time.Since(began), noOutput)
	require.Less(t, time.Since(began), patience)
}

func printingCommand(t *testing.T, s commandSide) {
	steps := []string{}
	for range 16 {
		steps = append(steps, "print:on", "sleep:250ms")
	}
	require.NoError(t, newCommand(t, s).run(t.Context(), noOutput, steps...))
}

func slowCommand(t *testing.T, s commandSide) {
	require.NoError(t, newCommand(t, s).run(t.Context(), patience, "sleep:4s"))
}

func unreadCommand(t *testing.T, s commandSide) {
	c := newCommand(t, s)
	late := &lateWriter{wait: func() { time.Sleep(2 * noOutput) }}
	c.out = late
	require.NoError(t, c.run(t.Context(), noOutput, "print:one", "sleep:6500ms", "print:two"))
	require.Equal(t, "one\ntwo\n", late.text.String())
}

func lateOutput(t *testing.T, s commandSide) {
	c := newCommand(t, s)
	late := &lateWriter{wait: func() {
		for len(escape.WithToken(c.token)) > 0 {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(2 * noOutput)
	}}
	c.out = late
	err := c.run(t.Context(), noOutput, "print:one", "print:two")
	if s.loses {
		require.ErrorIs(t, err, exec.ErrWaitDelay)
		return
	}
	require.NoError(t, err)
	require.Equal(t, "one\ntwo\n", late.text.String())
}

// A lateWriter waits before it takes anything.
type lateWriter struct {
	wait func()
	once sync.Once
	text bytes.Buffer
}

// Write implements io.Writer.
func (w *lateWriter) Write(p []byte) (int, error) {
	w.once.Do(w.wait)
	return w.text.Write(p)
}

func unstartedCommand(t *testing.T, s commandSide) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := newCommand(t, s)
	var out bytes.Buffer
	c.out = &out
	require.ErrorIs(t, c.run(ctx, noOutput, "print:begun"), context.Canceled)
	require.Empty(t, out.String())
}

func unlimitedCommand(t *testing.T, s commandSide) {
	require.NoError(t, newCommand(t, s).run(t.Context(), 0, "sleep:1s"))
}

func interruptedCommand(t *testing.T, s commandSide) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
	defer cancel()
	err := newCommand(t, s).run(ctx, patience, "sleep:1h")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, migrating.ErrSilent)
	require.NotErrorIs(t, err, watchdog.CommandNoOutput)
}

func failingCommand(t *testing.T, s commandSide) {
	err := newCommand(t, s).run(t.Context(), patience, "fail")
	exit, ok := err.(*exec.ExitError) //nolint:errorlint // as hosts do it
	require.True(t, ok, "%T", err)
	require.Equal(t, 3, exit.ExitCode())
	status, ok := exit.Sys().(syscall.WaitStatus)
	require.True(t, ok && status.Exited())
}

func stubbornGrandchild(t *testing.T, s commandSide) {
	c := newCommand(t, s)
	s.told(t, c.run(t.Context(), noOutput, "child:ignore;print:up;sleep:1h", "sleep:1h"))
	require.Eventually(t, func() bool { return len(escape.WithToken(c.token)) == 0 }, patience, 10*time.Millisecond)
}

// daemon ends a daemon that a process group does not reach itself.
func daemon(t *testing.T, s commandSide) {
	c := newCommand(t, s)
	began := time.Now()
	s.told(t, c.run(t.Context(), noOutput, "daemon:ignore;print:up;sleep:1h", "sleep:1h"))
	require.Less(t, time.Since(began), patience)
	left := escape.WithToken(c.token)
	require.Len(t, left, s.daemons)
	for _, process := range left {
		require.NoError(t, syscall.Kill(process.PID, syscall.SIGKILL))
	}
	require.Eventually(t, func() bool { return len(escape.WithToken(c.token)) == 0 }, patience, 10*time.Millisecond)
}

// childPrefix begins the first argument of this test binary if it is a command of a test.
const childPrefix = "migrating-child-"

func init() {
	if len(os.Args) > 2 && strings.HasPrefix(os.Args[1], childPrefix) {
		runChild(os.Args[2:])
	}
}

// runChild does what a command of a test does, step by step. A step is a word, and after a colon its argument.
func runChild(steps []string) {
	time.AfterFunc(5*time.Minute, func() { os.Exit(98) })
	for _, step := range steps {
		word, argument, _ := strings.Cut(step, ":")
		if err := childStep(word, argument); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(97)
		}
	}
	os.Exit(0)
}

func childStep(word, argument string) error {
	switch word {
	case "print":
		fmt.Println(argument)
	case "sleep":
		length, err := time.ParseDuration(argument)
		time.Sleep(length)
		return err
	case "fail":
		os.Exit(3)
	case "ignore": // SIGTERM
		signal.Ignore(syscall.SIGTERM)
	case "child":
		return startChild(nil, argument)
	case "daemon":
		return startChild(&syscall.SysProcAttr{Setsid: true}, argument)
	default:
		return fmt.Errorf("no such step: %s", word)
	}
	return nil
}

// startChild starts this program again, with the steps that are separated by semicolons and the same output.
func startChild(attr *syscall.SysProcAttr, steps string) error {
	cmd := exec.Command(os.Args[0], append(os.Args[1:2:2], strings.Split(steps, ";")...)...)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = os.Stdout, os.Stderr, attr
	return cmd.Start()
}
