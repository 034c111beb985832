//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree_test

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/proctree"
)

// TestBelongs checks which of the processes that /proc lists as children of a member belong to its tree.
func TestBelongs(t *testing.T) {
	cmd := exec.Command("sleep", "100") // a child of this process, without a mark
	require.NoError(t, cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Kill()
	child, self := cmd.Process.Pid, os.Getpid()
	began := proctree.StartTicks(self)
	tree := start(t, "sleep", "100")
	defer endNow(t, tree)
	mark := proctree.MarkOf(tree.PID())
	require.NotZero(t, mark)

	assert.True(t, proctree.Belongs(mark, child, self, began), "a child without the mark, of a parent that exists")
	assert.False(t, proctree.Belongs(mark, child, self, began-1), "the parent's PID was reused")
	assert.False(t, proctree.Belongs(mark, child, tree.PID(), proctree.StartTicks(tree.PID())),
		"the child's PID was reused by the child of another process")
	assert.True(t, proctree.Belongs(mark, tree.PID(), self, began-1), "the mark is enough, whoever the parent is")
	assert.False(t, proctree.Belongs(proctree.NewMark(0), tree.PID(), self, began), "the mark of another tree")
}

// TestZombie checks that a process that waits to be reaped by its parent gets no signal and does not count.
func TestZombie(t *testing.T) {
	tree := start(t, "sh", "-c", "true & exec sleep 100") // sleep does not reap
	require.Eventually(t, func() bool {
		children := childrenOf(t, tree.PID())
		return len(children) == 1 && state(children[0]) == 'Z'
	}, prompt, time.Millisecond)
	reached, err := tree.Signal(0)
	require.NoError(t, err)
	assert.Equal(t, 1, reached)
	signalAll(t, tree, syscall.SIGTERM)
	gone(t, tree)
}

// leaveQuietChild starts a process that sends no signal when it exits. It executes no program, which would change that.
//
//go:norace
func leaveQuietChild() int {
	child, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, 0, 0, 0, 0, 0, 0)
	for errno == 0 && child == 0 {
		syscall.RawSyscall6(syscall.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
	return int(errno)
}

// TestQuietOrphan checks that the guard reaps an orphan that sends no signal when it exits.
func TestQuietOrphan(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	c := command(t, self)
	c.Env = append(c.Env, roleVariable+"=quiet child")
	tree, err := proctree.Start(c)
	require.NoError(t, err)
	within(t, prompt, tree.Exited(), "the leader has not ended")
	require.Zero(t, tree.Status().ExitCode)
	orphans := childrenOf(t, guardOf(t, os.Getpid()))
	require.Len(t, orphans, 1)
	select {
	case <-tree.Gone():
		assert.Fail(t, "gone while its orphan is alive")
	case <-time.After(100 * time.Millisecond):
	}
	endNow(t, tree)
	assert.Zero(t, state(orphans[0]), "it was reaped")
}

// TestOtherProc checks that each of two fields of a thread's status tells that /proc is that of another PID namespace: the
// PID can be the same in both by chance, and an old kernel lacks NSpid.
func TestOtherProc(t *testing.T) {
	own, err := os.ReadFile("/proc/thread-self/status")
	require.NoError(t, err)
	require.NoError(t, proctree.CheckProc(own))
	pid := strconv.Itoa(os.Getpid())
	require.NoError(t, proctree.CheckProc([]byte("Tgid:\t"+pid+"\n")), "an old kernel")
	for _, status := range []string{
		"Tgid:\t" + pid + "\nNSpid:\t" + pid + "\t" + pid + "\n", "Tgid:\t1" + pid + "\nNSpid:\t1" + pid + "\n",
		"Tgid:\t1" + pid + "\n", "",
	} {
		err := proctree.CheckProc([]byte(status))
		require.ErrorIs(t, err, proctree.ErrGuard, "%q", status)
		assert.ErrorContains(t, err, "/proc belongs to another PID namespace")
	}
}
