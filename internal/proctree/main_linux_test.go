//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/internal/proctree"
)

// The tests execute this program again in the role that roleVariable names.
const (
	roleVariable    = "PROCTREE_TEST_ROLE"
	commandVariable = "PROCTREE_TEST_COMMAND"
)

// quickExit is for the environment: with the race detector every process otherwise ends a second late.
const quickExit = "GORACE=atexit_sleep_ms=0"

var roles = map[string]func() error{
	"host":          runHost,
	"print":         printProcess,
	"privileges":    printPrivileges,
	"namespace":     runNamespace,
	"place":         startInPlace,
	"missed":        missOne,
	"few files":     fewFiles,
	"changing":      changeAndCompare,
	"scheduling":    changeScheduling,
	"alternating":   alternate,
	"failing":       failToStart,
	"no free files": useAllFiles,
	"quiet child":   leaveQuietChild,
	"all shapes":    hostShapes,
	"end shapes":    endShapes,
	"two users":     beTwoUsers,
	"slow guard":    startSlowGuard,
	"tracer":        trace,
	"other thread":  startFromThread,
	"leave":         leave,
	"server":        serve,
	"forker":        fork(true),
	"group forker":  fork(false),
	"prepared":      prepareAndStart,
	"unused guard":  prepareAndLeave,
}

func TestMain(m *testing.M) {
	escape.Main()
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(play(role))
	}
	name, value, _ := strings.Cut(quickExit, "=")
	_ = os.Setenv(name, value)
	flag.Parse()
	_ = flag.Set("test.parallel", "4") // some wait, and most are busy in other processes
	goleak.VerifyTestMain(m)
}

// cannotHere is the exit status of a role whose place or change cannot be had here.
const cannotHere = 77

// play returns the exit status of a role. It prints the error.
func play(role string) int {
	do, known := roles[role]
	if !known {
		fmt.Fprintf(os.Stderr, "%s=%s is no role; a child must not run the tests again\n", roleVariable, role)
		return 2
	}
	switch err := do(); {
	case err == nil:
		return 0
	case errors.Is(err, errCannotHere):
		return cannotHere
	default:
		fmt.Println(err)
		return 1
	}
}

var errCannotHere = errors.New("impossible with this kernel, or in the sandbox of this test")

// skipIfCannot skips the test if a role, or the start of one, failed because something cannot be had here.
func skipIfCannot(t *testing.T, err error) {
	t.Helper()
	var failed *exec.ExitError
	if errors.As(err, &failed) && failed.ExitCode() == cannotHere || errors.Is(err, syscall.EPERM) {
		t.Skipf("%v: %v", errCannotHere, err)
	}
}

// runHost starts a command, keeps what it leaves behind if it is to, and waits to be killed.
func runHost() error {
	var c proctree.Command
	if err := json.Unmarshal([]byte(os.Getenv(commandVariable)), &c); err != nil {
		return err
	}
	tree, err := proctree.Start(c)
	if err != nil {
		return err
	}
	if c.Releases {
		<-tree.Exited()
		_ = tree.Release()
		<-tree.Gone()
		fmt.Println("kept")
	}
	time.Sleep(5 * time.Minute)
	return nil
}

// self is this program.
const self = "/proc/self/exe"

// again returns a command that executes this program, or a copy of it, again in a role.
func again(program, role string, extra ...string) *exec.Cmd {
	cmd := exec.Command(program)
	cmd.Env = append(append(os.Environ(), roleVariable+"="+role), extra...)
	return cmd
}

// runRole returns what a role prints.
func runRole(t *testing.T, program, role string, env ...string) string {
	t.Helper()
	return outputOf(t, again(program, role, env...))
}

// outputOf returns what a role prints to its standard output.
func outputOf(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	text, err := cmd.Output()
	require.NoError(t, err, "%s", text)
	return strings.TrimSpace(string(text))
}

// startHostOf starts this program again in a role, as the host of a command.
func startHostOf(t *testing.T, role string, c proctree.Command, out io.Writer) *os.Process {
	t.Helper()
	text, err := json.Marshal(c)
	require.NoError(t, err)
	host := again(self, role, commandVariable+"="+string(text))
	host.Stdout, host.Stderr = out, os.Stderr
	require.NoError(t, host.Start())
	t.Cleanup(func() {
		_ = host.Process.Kill()
		_ = host.Wait()
	})
	return host.Process
}

// stays checks that a tree is not gone for a while.
func stays(t *testing.T, tree *proctree.Tree) {
	t.Helper()
	select {
	case <-tree.Gone():
		assert.Fail(t, "gone while a process is alive")
	case <-time.After(100 * time.Millisecond):
	}
}

// command returns a command whose descriptors 0 to 2 are closed.
func command(tb testing.TB, args ...string) proctree.Command {
	tb.Helper()
	path, err := exec.LookPath(args[0])
	require.NoError(tb, err)
	return proctree.Command{Path: path, Args: args, Env: os.Environ(), Files: []*os.File{nil, nil, nil}}
}

func start(tb testing.TB, args ...string) *proctree.Tree {
	tb.Helper()
	return startCommand(tb, command(tb, args...))
}

func startCommand(tb testing.TB, c proctree.Command) *proctree.Tree {
	tb.Helper()
	tree, err := proctree.Start(c)
	require.NoError(tb, err)
	return tree
}

// startRole starts this program again in a role, as a tree.
func startRole(t *testing.T, role string) *proctree.Tree {
	t.Helper()
	c := command(t, self)
	c.Env = append(c.Env, roleVariable+"="+role)
	return startCommand(t, c)
}

// commandOf returns the command of a scenario in a folder. The cleanup ends what a failed test leaves.
func commandOf(tb testing.TB, s escape.Scenario) (escape.Scenario, proctree.Command) {
	tb.Helper()
	s = s.In(tb.TempDir())
	tb.Cleanup(s.End)
	path, args, env := s.Command()
	return s, proctree.Command{Path: path, Args: args, Env: env}
}

// begin starts a scenario and waits until all its processes run.
func begin(tb testing.TB, s escape.Scenario) (*proctree.Tree, escape.Scenario) {
	tb.Helper()
	s, c := commandOf(tb, s)
	c.Files = []*os.File{nil, nil, os.Stderr}
	tree := startCommand(tb, c)
	require.NoError(tb, s.Ready(late))
	return tree, s
}

// beginHost is begin in a host of its own, which has a guard.
func beginHost(t *testing.T, s escape.Scenario) (host *os.Process, guard int, _ escape.Scenario) {
	t.Helper()
	s, c := commandOf(t, s)
	host = startHostOf(t, "host", c, os.Stdout)
	require.NoError(t, s.Ready(late))
	return host, guardOf(t, host.Pid), s
}

func exited(tb testing.TB, tree *proctree.Tree) {
	tb.Helper()
	require.NoError(tb, waitFor(tree.Exited()))
}

func gone(tb testing.TB, tree *proctree.Tree) {
	tb.Helper()
	require.NoError(tb, waitFor(tree.Gone()))
}

func waitFor(done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-time.After(late):
		return fmt.Errorf("not closed after %v", late)
	}
}

func scenario(tb testing.TB, name string) escape.Scenario {
	tb.Helper()
	for _, s := range escape.Scenarios() {
		if s.Name == name {
			return s
		}
	}
	require.FailNow(tb, "no scenario "+name)
	return escape.Scenario{}
}

// guardOf returns the PID of the guard of a host.
func guardOf(tb testing.TB, host int) int {
	tb.Helper()
	guards := guardsOf(host)
	require.NotEmpty(tb, guards, "the host has no guard")
	return guards[0]
}

func atoi(tb testing.TB, text string) int {
	tb.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(text))
	require.NoError(tb, err)
	return n
}

// running reports whether the process exists and is not a zombie.
func running(pid int) bool { return state(pid) != 0 && state(pid) != 'Z' }

func state(pid int) byte {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	return text[bytes.LastIndexByte(text, ')')+2]
}

func endNow(tb testing.TB, tree *proctree.Tree) {
	tb.Helper()
	assert.NoError(tb, tree.Kill())
	gone(tb, tree)
}

func signalAll(tb testing.TB, tree *proctree.Tree, sig syscall.Signal) {
	tb.Helper()
	if _, err := tree.Signal(sig); err != nil {
		assert.ErrorIs(tb, err, proctree.ErrEnded)
	}
}

// reaches sends a signal to a tree, which must have so many processes.
func reaches(t *testing.T, tree *proctree.Tree, sig syscall.Signal, processes int, messages ...any) {
	t.Helper()
	reached, err := tree.Signal(sig)
	require.NoError(t, err)
	assert.Equal(t, processes, reached, messages...)
}

// prepareAndStart prepares a guard, and starts a command when it is there. It prints the guards before and after.
func prepareAndStart() error {
	proctree.Prepare()
	for until := time.Now().Add(late); len(guardsOf(os.Getpid())) == 0 && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
	}
	before := guardsOf(os.Getpid())
	if _, err := guardedOutput("/bin/true"); err != nil {
		return err
	}
	fmt.Println(before, guardsOf(os.Getpid()))
	return nil
}

// prepareAndLeave prepares a guard, prints the PID of its child, and ends while the guard starts.
func prepareAndLeave() error {
	proctree.Prepare()
	for until := time.Now().Add(late); time.Now().Before(until); {
		if children := allChildrenOf(os.Getpid()); len(children) > 0 {
			fmt.Println(children[0])
			return nil
		}
	}
	return errors.New("no guard was started")
}

func TestPrepare(t *testing.T) {
	t.Run("the first command gets the guard that was prepared", func(t *testing.T) {
		before, after, _ := strings.Cut(runRole(t, self, "prepared"), " ")
		assert.Equal(t, before, after)
		assert.NotEqual(t, "[]", before)
	})
	t.Run("a guard that was prepared does not outlive a host that starts nothing", func(t *testing.T) {
		pid := atoi(t, runRole(t, self, "unused guard"))
		require.Eventually(t, func() bool { return !running(pid) }, late, time.Millisecond)
	})
}
