//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree_test

import (
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/internal/proctree"
	"github.com/seed62658d38/watchdog/internal/racing"
)

// TestSignalFirst signals the first process of a tree and nothing else.
func TestSignalFirst(t *testing.T) {
	t.Parallel()
	tree := start(t, "sh", "-c", "sleep 100 & sleep 100 & wait")
	require.Eventually(t, func() bool { return len(childrenOf(t, tree.PID())) == 2 }, late, time.Millisecond)
	all := append(childrenOf(t, tree.PID()), tree.PID())
	slices.Sort(all)
	alive, err := tree.Processes()
	require.NoError(t, err)
	require.Equal(t, all, alive)

	require.NoError(t, tree.SignalFirst(syscall.SIGSTOP))
	require.Eventually(t, func() bool { return state(tree.PID()) == 'T' }, late, time.Millisecond)
	require.NoError(t, tree.SignalFirst(0))
	require.Equal(t, byte('T'), state(tree.PID()), "it is not continued")
	require.NoError(t, tree.SignalFirst(syscall.SIGKILL))
	within(t, late, tree.Exited(), "not exited")
	require.ErrorIs(t, tree.SignalFirst(syscall.SIGTERM), proctree.ErrEnded)
	alive, err = tree.Processes()
	require.NoError(t, err)
	require.Len(t, alive, 2)

	endNow(t, tree)
	_, err = tree.Processes()
	require.ErrorIs(t, err, proctree.ErrEnded)
}

// TestManyProcesses has more processes than one message of the guard lists.
func TestManyProcesses(t *testing.T) {
	t.Parallel()
	tree, s := begin(t, escape.Crowd(proctree.MaxListed+50))
	alive, err := tree.Processes()
	require.NoError(t, err)
	require.Len(t, alive, len(escape.WithToken(s.Token())))
	require.Greater(t, len(alive), proctree.MaxListed)
	endNow(t, tree)
}

// TestFirstWithoutGuard signals the first process, and lists all, while the guard is stopped. It runs alone, because
// the guard is that of all tests.
func TestFirstWithoutGuard(t *testing.T) {
	tree := start(t, "sh", "-c", "sleep 100 & wait")
	require.Eventually(t, func() bool { return len(childrenOf(t, tree.PID())) == 1 }, late, time.Millisecond)
	all := append(childrenOf(t, tree.PID()), tree.PID())
	slices.Sort(all)
	guard := guardOf(t, os.Getpid())
	require.NoError(t, syscall.Kill(guard, syscall.SIGSTOP))
	alive, err := tree.Processes()
	assert.NoError(t, err)
	slices.Sort(alive)
	assert.Equal(t, all, alive)
	assert.NoError(t, tree.SignalFirst(syscall.SIGTERM))
	require.Eventually(t, func() bool { return state(tree.PID()) == 'Z' }, late, time.Millisecond)
	require.NoError(t, syscall.Kill(guard, syscall.SIGCONT))
	within(t, late, tree.Exited(), "not exited")
	require.Equal(t, syscall.SIGTERM, tree.Status().Signal)
	endNow(t, tree)
}

// TestRest signals, lists and kills what was released, with its guard and without.
func TestRest(t *testing.T) {
	const noGuard, neighbours = "after the end of its guard", "after neighbours"
	for _, name := range []string{"as it was", "without its mark", noGuard, neighbours} {
		t.Run(name, func(t *testing.T) {
			stranger := startServer(t)
			stranger.do("clear")
			stranger.release()
			s := startServer(t)
			if name != "as it was" {
				s.do("clear")
			}
			all := []int{s.pid, s.do("child"), s.do("daemon")}
			slices.Sort(all)
			s.release()
			if name == neighbours {
				runOthers(t)
			}
			if name == noGuard {
				guard := guardOf(t, os.Getpid())
				require.NoError(t, syscall.Kill(guard, syscall.SIGKILL))
				require.Eventually(t, func() bool { return !running(guard) }, late, time.Millisecond)
			}
			alive, err := s.tree.Processes()
			require.NoError(t, err)
			require.Equal(t, all, alive)
			reached, err := s.tree.Signal(0)
			require.NoError(t, err)
			require.Equal(t, 3, reached)
			for range 2 {
				_, err := s.tree.Signal(syscall.SIGSTOP)
				require.NoError(t, err)
				require.Eventually(t, func() bool { return state(s.pid) == 'T' }, late, time.Millisecond)
			}
			require.NoError(t, s.tree.Kill())
			require.Zero(t, s.alive())
			_, err = s.tree.Signal(syscall.SIGTERM)
			require.ErrorIs(t, err, proctree.ErrEnded)
			_, err = s.tree.Processes()
			require.ErrorIs(t, err, proctree.ErrEnded)
			require.NoError(t, s.tree.Kill())
			require.Equal(t, 1, stranger.alive())
		})
	}
}

// TestRestUnsure checks that nothing is signalled that may be of another tree, because nothing tied it to its own.
func TestRestUnsure(t *testing.T) {
	neighbour := start(t, "sleep", "100")
	s := startServer(t)
	s.do("clear")
	gone(t, s.tree)
	require.NoError(t, s.tree.Kill())
	_, err := s.tree.Processes()
	require.ErrorIs(t, err, proctree.ErrEnded)
	require.Equal(t, 1, s.alive())
	endNow(t, neighbour)
}

// TestRestReused kills what was released when another process has the PID of one of it, which nothing but that PID and
// its start named.
func TestRestReused(t *testing.T) {
	s := startServer(t)
	s.do("clear")
	s.release()
	s.kill()
	require.Eventually(t, func() bool { return state(s.pid) == 0 }, late, time.Millisecond, "it is reaped")
	stranger := startAs(t, s.pid)
	require.NoError(t, s.tree.Kill())
	_, err := s.tree.Signal(syscall.SIGKILL)
	require.ErrorIs(t, err, proctree.ErrEnded)
	_, err = s.tree.Processes()
	require.ErrorIs(t, err, proctree.ErrEnded)
	require.NoError(t, stranger.Signal(syscall.SIGTERM), "the stranger lives")
	status, err := stranger.Wait()
	require.NoError(t, err)
	require.Equal(t, syscall.SIGTERM, status.Sys().(syscall.WaitStatus).Signal())
}

// startAs starts a process that gets the PID. It skips the test where that cannot be had.
func startAs(t *testing.T, pid int) *os.Process {
	t.Helper()
	for range 1000 {
		err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0)
		if err != nil {
			t.Skipf("cannot choose the PID of a process: %v", err)
		}
		p, err := os.StartProcess("/bin/sleep", []string{"sleep", "100"}, &os.ProcAttr{})
		require.NoError(t, err)
		if p.Pid == pid {
			return p
		}
		require.NoError(t, p.Kill())
		_, _ = p.Wait()
	}
	t.Skip("other processes take the PIDs too fast")
	return nil
}

// TestReleaseAndKill kills a tree at the moment of its release: either it is killed, or it is kept and killed then.
func TestReleaseAndKill(t *testing.T) {
	for range racing.Rounds(8, 200) {
		s := startServer(t)
		s.do("daemon")
		done := make(chan error)
		go func() { done <- s.tree.Release() }()
		require.NoError(t, s.tree.Kill())
		require.NoError(t, <-done)
		gone(t, s.tree)
		require.Zero(t, s.alive())
	}
}
