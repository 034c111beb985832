//go:build unix && (!linux || 386 || arm || mips || mipsle || mips64 || mips64le)

package proctree_test

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/proctree"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start starts a command and returns its output.
func start(t *testing.T, args ...string) (*proctree.Tree, *os.File) {
	t.Helper()
	path, err := exec.LookPath(args[0])
	require.NoError(t, err)
	out, theirs, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { out.Close() })
	defer theirs.Close()
	tree, err := proctree.Start(proctree.Command{
		Path: path, Args: args, Env: os.Environ(), Files: []*os.File{nil, theirs, nil},
	})
	require.NoError(t, err)
	return tree, out
}

func within(t *testing.T, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		require.FailNow(t, "too late")
	}
}

func TestGroup(t *testing.T) {
	t.Run("an exit status", func(t *testing.T) {
		tree, _ := start(t, "sh", "-c", "exit 7")
		within(t, tree.Exited())
		assert.Equal(t, 7, tree.Status().ExitCode)
		within(t, tree.Gone())
		assert.Equal(t, "exit status 7", tree.Status().State.String())
		assert.Equal(t, tree.PID(), tree.Status().State.Pid())
		_, err := tree.Signal(syscall.SIGTERM)
		assert.ErrorIs(t, err, proctree.ErrEnded)
	})
	t.Run("a signal reaches the group", func(t *testing.T) {
		tree, out := start(t, "sh", "-c", "sleep 100 & echo $!; wait")
		child := readPID(t, out)
		_, err := tree.Signal(syscall.SIGTERM)
		require.NoError(t, err)
		within(t, tree.Gone())
		assert.Equal(t, syscall.SIGTERM, tree.Status().Signal)
		assert.Equal(t, "signal: terminated", tree.Status().State.String())
		assert.Eventually(t, func() bool { return syscall.Kill(child, 0) != nil }, 5*time.Second, time.Millisecond)
	})
	t.Run("a signal for the first process alone", func(t *testing.T) {
		tree, out := start(t, "sh", "-c", "trap 'exit 3' USR1; sleep 100 & echo $!; wait")
		child := readPID(t, out)
		alive, err := tree.Processes()
		require.NoError(t, err)
		require.Equal(t, []int{tree.PID()}, alive, "nothing lists a group")
		require.NoError(t, tree.SignalFirst(syscall.SIGUSR1))
		within(t, tree.Exited())
		assert.Equal(t, 3, tree.Status().ExitCode)
		require.NoError(t, syscall.Kill(child, syscall.SIGKILL), "it was alive")
		within(t, tree.Gone())
		assert.ErrorIs(t, tree.SignalFirst(syscall.SIGTERM), proctree.ErrEnded)
		_, err = tree.Processes()
		assert.ErrorIs(t, err, proctree.ErrEnded)
	})
	if runtime.GOOS != "darwin" && runtime.GOOS != "linux" {
		return // without waitid the group is lost with its first process
	}
	t.Run("the rest of a group is killed after the command has exited", func(t *testing.T) {
		tree, out := start(t, "sh", "-c", "sleep 100 & echo $!")
		child := readPID(t, out)
		within(t, tree.Exited())
		assert.Equal(t, 0, tree.Status().ExitCode)
		require.NoError(t, tree.Kill())
		within(t, tree.Gone())
		assert.Eventually(t, func() bool { return syscall.Kill(child, 0) != nil }, 5*time.Second, time.Millisecond)
	})
	t.Run("the rest of a group is released", func(t *testing.T) {
		tree, out := start(t, "sh", "-c", "sleep 100 & echo $!")
		child := readPID(t, out)
		within(t, tree.Exited())
		require.NoError(t, tree.Release())
		within(t, tree.Gone())
		assert.NoError(t, tree.Kill())
		assert.NoError(t, syscall.Kill(child, syscall.SIGKILL), "it was alive")
	})
}

func readPID(t *testing.T, out *os.File) int {
	t.Helper()
	text := make([]byte, 20)
	n, err := out.Read(text)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text[:n])))
	require.NoError(t, err)
	return pid
}
