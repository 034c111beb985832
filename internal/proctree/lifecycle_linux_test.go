//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/internal/proctree"
	"github.com/seed62658d38/watchdog/internal/racing"
)

func TestSignalStopped(t *testing.T) {
	for _, name := range []string{"a stopped child", "a stopped leader"} {
		tree, s := begin(t, scenario(t, name))
		require.Eventually(t, func() bool { return stopped(s) == 1 }, late, time.Millisecond)
		reached, err := tree.Signal(0)
		require.NoError(t, err)
		assert.Equal(t, 2, reached)
		time.Sleep(50 * time.Millisecond) // for a process that goes on
		assert.Equal(t, 1, stopped(s), "to ask what is alive continues nothing")
		reached, err = tree.Signal(syscall.SIGTERM)
		require.NoError(t, err)
		assert.Equal(t, 2, reached)
		gone(t, tree)
		assert.Empty(t, s.Survivors())
	}
}

func stopped(s escape.Scenario) int {
	n := 0
	for _, p := range s.Survivors() {
		if state(p.PID) == 'T' {
			n++
		}
	}
	return n
}

// TestRelease checks that the rest of a released tree lives on.
func TestRelease(t *testing.T) {
	tree, s := begin(t, scenario(t, "nohup and exit"))
	within(t, late, tree.Exited(), "the leader has not ended")
	require.NoError(t, tree.Release())
	gone(t, tree)
	assert.NoError(t, tree.Err())
	other, others := begin(t, scenario(t, "a tree of background children"))
	endNow(t, other)
	assert.Empty(t, others.Survivors())
	assert.Len(t, s.Survivors(), 1, "it does not count as part of another tree")
	reached, err := tree.Signal(0)
	assert.NoError(t, err)
	assert.Equal(t, 1, reached)
	assert.NoError(t, tree.Kill())
	assert.Empty(t, s.Survivors())
}

func TestConcurrentTrees(t *testing.T) {
	shapes := escape.Scenarios()
	var all sync.WaitGroup
	for i := range racing.Rounds(24, 64) {
		shape := shapes[i%len(shapes)]
		// The guard finds such an orphan only if no other tree runs.
		alone := shape.Name == "an orphan that set its limit of file locks"
		if shape.Processes > 100 || alone {
			shape = escape.Crowd(3)
		}
		all.Go(func() {
			tree, s := begin(t, shape)
			signalAll(t, tree, syscall.SIGINT)
			endNow(t, tree)
			assert.Empty(t, s.Survivors(), s.Name)
		})
	}
	all.Wait()
}

// TestOrphanWithoutMark checks that the guard finds an orphan that changed its limit by its process group.
func TestOrphanWithoutMark(t *testing.T) {
	neighbour := start(t, "sleep", "1000")
	tree, s := begin(t, scenario(t, "an orphan in the group that set its limit of file locks"))
	within(t, late, tree.Exited(), "the leader has not ended")
	stays(t, tree)
	endNow(t, tree)
	assert.Empty(t, s.Survivors())
	assert.True(t, running(neighbour.PID()))
	endNow(t, neighbour)
}

// TestGuardName checks that nobody who kills hosts by the name of their program kills their guards: neither by the name
// of the process, nor by its command line.
func TestGuardName(t *testing.T) {
	tree := start(t, "sleep", "1000")
	proc := "/proc/" + strconv.Itoa(guardOf(t, os.Getpid()))
	for file, want := range map[string]string{"comm": "wdguard\n", "cmdline": "wdguard\x00"} {
		name, err := os.ReadFile(filepath.Join(proc, file))
		require.NoError(t, err)
		assert.Equal(t, want, string(name), file)
	}
	endNow(t, tree)
}

// TestGuardSignals checks that signals for the host do not end the guard: all but those that no program survives, or
// that say that it is broken, and two that the system's libraries have for themselves.
func TestGuardSignals(t *testing.T) {
	tree, s := begin(t, escape.Crowd(1))
	guard := guardOf(t, os.Getpid())
	for sig := syscall.Signal(1); sig <= 64; sig++ {
		switch sig {
		case syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL,
			syscall.SIGABRT, syscall.SIGTRAP, 32, 34:
		default:
			require.NoError(t, syscall.Kill(guard, sig))
		}
	}
	started := start(t, "true")
	gone(t, started)
	assert.NoError(t, started.Err())
	assert.Len(t, s.Survivors(), 2)
	endNow(t, tree)
	assert.NoError(t, tree.Err())
	assert.Equal(t, guard, guardOf(t, os.Getpid()))
}

func TestGuardKilled(t *testing.T) {
	for range racing.Rounds(1, 20) {
		tree, s := begin(t, scenario(t, "a child that cleared its environment"))
		ended, others := begin(t, scenario(t, "a daemon whose leader exits"))
		within(t, late, ended.Exited(), "the leader has not ended")
		guard := guardOf(t, os.Getpid())
		require.NoError(t, syscall.Kill(guard, syscall.SIGKILL))
		gone(t, tree)
		gone(t, ended)
		assert.ErrorIs(t, tree.Err(), proctree.ErrGuard)
		assert.ErrorIs(t, ended.Err(), proctree.ErrGuard)
		assert.Equal(t, -1, tree.Status().ExitCode)
		assert.Equal(t, 0, ended.Status().ExitCode, "the known status stays")
		assert.Empty(t, s.Survivors())
		assert.Empty(t, others.Survivors())
		next := start(t, "true")
		gone(t, next)
		assert.NoError(t, next.Err())
		assert.NotEqual(t, guard, guardOf(t, os.Getpid()))
	}
}

// TestRefusedRequest checks that a request that cannot be sent leaves the guard and its trees alone.
func TestRefusedRequest(t *testing.T) {
	tree := start(t, "sleep", "1000")
	guard := guardOf(t, os.Getpid())
	none := os.NewFile(9999, "no such descriptor")
	_, err := proctree.Start(proctree.Command{Path: "/bin/true", Args: []string{"true"}, Files: []*os.File{none}})
	require.ErrorIs(t, err, syscall.EBADF)
	assert.Error(t, none.Close())
	assert.Equal(t, guard, guardOf(t, os.Getpid()))
	assert.True(t, running(tree.PID()))
	endNow(t, tree)
	assert.NoError(t, tree.Err())
}

// TestKillWhileEnding checks that an order for a tree whose last report is on its way harms neither the guard nor other
// trees.
func TestKillWhileEnding(t *testing.T) {
	other := start(t, "sleep", "1000")
	guard := guardOf(t, os.Getpid())
	kills := racing.Rounds(50, 1000)
	for began := time.Now(); kills > 0 && time.Since(began) < late; kills-- {
		tree := start(t, "true")
		for ended := false; !ended; {
			select {
			case <-tree.Gone():
				ended = true
			default:
				require.NoError(t, tree.Kill())
			}
		}
		require.NoError(t, tree.Err())
	}
	assert.True(t, running(other.PID()))
	assert.Equal(t, guard, guardOf(t, os.Getpid()))
	endNow(t, other)
	assert.NoError(t, other.Err())
}

// TestKillWhileRead checks that a kill is not held up by programs that read what /proc shows of the processes.
func TestKillWhileRead(t *testing.T) {
	kills, slow := max(20, racing.Rounds(20, 400)), 0
	for range kills {
		tree, s := begin(t, scenario(t, "a daemon without its main thread"))
		killed := make(chan struct{})
		var readers sync.WaitGroup
		for range 2 {
			readers.Go(func() { readUntil(s.Survivors(), killed) })
		}
		time.Sleep(5 * time.Millisecond)
		began := time.Now()
		endNow(t, tree)
		if time.Since(began) > 900*time.Millisecond { // the guard's thread is stopped for the rest of a second
			slow++
		}
		close(killed)
		readers.Wait()
	}
	assert.LessOrEqual(t, slow, kills/10, "of %d kills; a busy machine can be slow by itself", kills)
}

// readUntil reads the files of processes in /proc again and again.
func readUntil(all []escape.Process, ended <-chan struct{}) {
	for {
		for _, p := range all {
			for _, name := range []string{"stat", "cmdline", "status"} {
				_, _ = os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.PID, name))
			}
		}
		select {
		case <-ended:
			return
		default:
		}
	}
}

// TestLastMessage checks that the end of a connection does not hide a message that was sent right before it. Without a
// second look, about one in a thousand is lost.
func TestLastMessage(t *testing.T) {
	text := make([]byte, 64)
	for range racing.Rounds(3_000, 100_000) {
		pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		require.NoError(t, syscall.SetNonblock(pair[0], true))
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			_, _ = syscall.Write(pair[1], []byte("gone"))
			_ = syscall.Close(pair[1])
		}()
		length, err := proctree.ReadMessage(pair[0], text)
		for errors.Is(err, syscall.EAGAIN) {
			length, err = proctree.ReadMessage(pair[0], text)
		}
		<-sent
		_ = syscall.Close(pair[0])
		require.NoError(t, err)
		require.Equal(t, "gone", string(text[:length]))
	}
}

// TestLeaks checks that commands leave no descriptors and no zombies behind.
func TestLeaks(t *testing.T) {
	commands := racing.Rounds(100, 1000)
	gone(t, start(t, "true"))
	guard := guardOf(t, os.Getpid())
	const few = 10 // what the runtime, and the tests before, may open or close meanwhile
	count := func() [2]int { return [2]int{descriptors(t, os.Getpid()), descriptors(t, guard)} }
	before := count()
	for range commands {
		tree := start(t, "true")
		gone(t, tree)
		_, err := proctree.Start(proctree.Command{Path: "/no/such"})
		require.ErrorIs(t, err, syscall.ENOENT)
	}
	assert.Eventually(t, func() bool {
		now := count()
		return now[0] <= before[0]+few && now[1] <= before[1]+few // those of a tree are one more for each command
	}, late, 10*time.Millisecond, "%v, then %v descriptors of host and guard", before, count())
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", guard, guard))
	require.NoError(t, err)
	assert.Empty(t, strings.TrimSpace(string(children)), "no zombies")
}

func descriptors(t *testing.T, pid int) int {
	all, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	require.NoError(t, err)
	return len(all)
}
