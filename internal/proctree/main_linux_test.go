//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree_test

import (
	"bytes"
	"encoding/json"
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

// roles are those that return the exit code.
var roles = map[string]func() int{
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
	"forker":        fork,
	"prepared":      prepareAndStart,
	"unused guard":  prepareAndLeave,
}

func TestMain(m *testing.M) {
	escape.Main()
	role := os.Getenv(roleVariable)
	if do := roles[role]; do != nil {
		os.Exit(do())
	}
	switch role {
	case "host":
		runHost()
	case "print":
		printProcess()
	case "privileges":
		printPrivileges()
	case "":
	default:
		fmt.Fprintf(os.Stderr, "%s=%s is no role; a child must not run the tests again\n", roleVariable, role)
		os.Exit(2)
	}
	name, value, _ := strings.Cut(quickExit, "=")
	_ = os.Setenv(name, value)
	flag.Parse()
	_ = flag.Set("test.parallel", "4") // some wait, and most are busy in other processes
	goleak.VerifyTestMain(m)
}

// runHost starts a command, keeps what it leaves behind if it is to, and waits to be killed.
func runHost() {
	var c proctree.Command
	if err := json.Unmarshal([]byte(os.Getenv(commandVariable)), &c); err != nil {
		panic(err)
	}
	tree, err := proctree.Start(c)
	if err != nil {
		panic(err)
	}
	if c.Releases {
		<-tree.Exited()
		_ = tree.Release()
		<-tree.Gone()
		fmt.Println("kept")
	}
	time.Sleep(5 * time.Minute)
	os.Exit(1)
}

// again returns a command that executes this program again in a role.
func again(tb testing.TB, role string, extra ...string) *exec.Cmd {
	tb.Helper()
	self, err := os.Executable()
	require.NoError(tb, err)
	cmd := exec.Command(self)
	cmd.Env = append(append(os.Environ(), roleVariable+"="+role), extra...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd
}

// startHostOf starts this program again in a role, as the host of a command.
func startHostOf(t *testing.T, role string, c proctree.Command, out io.Writer) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(c)
	require.NoError(t, err)
	host := again(t, role, commandVariable+"="+string(text))
	host.Stdout = out
	require.NoError(t, host.Start())
	t.Cleanup(func() {
		_ = host.Process.Kill()
		_ = host.Wait()
	})
	return host
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
	tree, err := proctree.Start(command(tb, args...))
	require.NoError(tb, err)
	return tree
}

// begin starts a scenario and waits until all its processes run. The cleanup ends what a failed test leaves.
func begin(tb testing.TB, s escape.Scenario) (*proctree.Tree, escape.Scenario) {
	tb.Helper()
	s = s.In(tb.TempDir())
	path, args, env := s.Command()
	tree, err := proctree.Start(proctree.Command{Path: path, Args: args, Env: env, Files: []*os.File{nil, nil, os.Stderr}})
	require.NoError(tb, err)
	tb.Cleanup(s.End)
	require.NoError(tb, s.Ready(late))
	return tree, s
}

func within(tb testing.TB, most time.Duration, done <-chan struct{}, what string) {
	tb.Helper()
	select {
	case <-done:
	case <-time.After(most):
		require.FailNow(tb, "too late", "%s after %v", what, most)
	}
}

func gone(tb testing.TB, tree *proctree.Tree) {
	tb.Helper()
	within(tb, late, tree.Gone(), "not gone")
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

// prepareAndStart prepares a guard, and starts a command when it is there. It prints the guards before and after.
func prepareAndStart() int {
	proctree.Prepare()
	for until := time.Now().Add(late); len(guardsOf(os.Getpid())) == 0 && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
	}
	before := guardsOf(os.Getpid())
	if _, err := guardedOutput("/bin/true"); err != nil {
		return failed(err)
	}
	fmt.Println(before, guardsOf(os.Getpid()))
	return 0
}

// prepareAndLeave prepares a guard, prints the PID of its child, and ends while the guard starts.
func prepareAndLeave() int {
	proctree.Prepare()
	for until := time.Now().Add(late); time.Now().Before(until); {
		if children := allChildrenOf(os.Getpid()); len(children) > 0 {
			fmt.Println(children[0])
			return 0
		}
	}
	return 1
}

func TestPrepare(t *testing.T) {
	t.Run("the first command gets the guard that was prepared", func(t *testing.T) {
		before, after, _ := strings.Cut(runRole(t, "/proc/self/exe", "prepared"), " ")
		assert.Equal(t, before, after)
		assert.NotEqual(t, "[]", before)
	})
	t.Run("a guard that was prepared does not outlive a host that starts nothing", func(t *testing.T) {
		pid := atoi(t, runRole(t, "/proc/self/exe", "unused guard"))
		require.Eventually(t, func() bool { return !running(pid) }, late, time.Millisecond)
	})
}
