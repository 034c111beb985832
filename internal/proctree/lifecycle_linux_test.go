//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
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

const shortGrace = 20 * time.Millisecond

func TestNothingSurvives(t *testing.T) {
	endings := []struct {
		name    string
		end     func(*testing.T, escape.Scenario)
		ownHost bool // which has no other tree, whatever runs beside it
	}{
		{"a kill", endedByKill, false},
		{"INT, TERM and KILL", endedInSteps, false},
		{"the end of the leader", endedByLeader, false},
		{"SIGKILL to the host", endedByHost, true},
	}
	for _, s := range escape.Scenarios() {
		for _, ending := range endings {
			if s.Processes > 100 && !ending.ownHost && !racing.Long {
				continue // two hundred programs take long
			}
			t.Run(s.Name+" after "+ending.name, func(t *testing.T) {
				if ending.ownHost {
					t.Parallel()
				}
				for range racing.Rounds(1, 5) {
					ending.end(t, s)
				}
			})
		}
	}
}

func endedByKill(t *testing.T, s escape.Scenario) {
	tree, s := begin(t, s)
	before := s.Survivors()
	assert.NotEmpty(t, before, "its processes run")
	endNow(t, tree)
	assert.Empty(t, s.Survivors())
	assert.NoError(t, tree.Err())
}

func endedInSteps(t *testing.T, s escape.Scenario) {
	tree, s := begin(t, s)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		signalAll(t, tree, sig)
		select {
		case <-tree.Gone():
		case <-time.After(shortGrace):
		}
	}
	endNow(t, tree)
	assert.Empty(t, s.Survivors())
}

func endedByLeader(t *testing.T, s escape.Scenario) {
	if s.SurvivesTERM {
		t.Skip("only a kill ends its leader")
	}
	tree, s := begin(t, s)
	if !s.LeaderExits {
		require.NoError(t, syscall.Kill(tree.PID(), syscall.SIGTERM))
	}
	exited(t, tree)
	if s.LeaderExits {
		assert.Equal(t, 0, tree.Status().ExitCode)
	}
	endNow(t, tree)
	assert.Empty(t, s.Survivors())
}

func endedByHost(t *testing.T, s escape.Scenario) {
	host, guard, s := beginHost(t, s)
	require.NoError(t, host.Kill())
	assert.Eventually(t, func() bool { return len(s.Survivors()) == 0 }, late, time.Millisecond)
	assert.Eventually(t, func() bool { return !running(guard) }, late, time.Millisecond,
		"the guard ends after its trees")
	assert.Empty(t, s.Survivors(), "nothing came back")
}

// TestMainThreadEnded checks that signals reach processes that show as zombies because their main thread has ended.
func TestMainThreadEnded(t *testing.T) {
	for name, alive := range map[string]int{
		"a leader without its main thread": 1, "a child without its main thread": 2, "a daemon without its main thread": 1,
	} {
		t.Run(name, func(t *testing.T) {
			tree, s := begin(t, scenario(t, name))
			require.Eventually(t, func() bool { return len(s.Survivors()) == alive }, late, time.Millisecond,
				"those that exit have not ended")
			reaches(t, tree, syscall.SIGTERM, alive)
			gone(t, tree)
			assert.Empty(t, s.Survivors())
		})
	}
	t.Run("a stopped one is continued", func(t *testing.T) {
		tree, s := begin(t, scenario(t, "a leader without its main thread"))
		require.NoError(t, syscall.Kill(tree.PID(), syscall.SIGSTOP))
		require.Eventually(t, func() bool { return allStopped(tree.PID()) }, late, time.Millisecond)
		signalAll(t, tree, syscall.SIGTERM)
		gone(t, tree)
		assert.Empty(t, s.Survivors())
	})
}

func TestSignalStopped(t *testing.T) {
	for _, name := range []string{"a stopped child", "a stopped leader"} {
		tree, s := begin(t, scenario(t, name))
		require.Eventually(t, func() bool { return stopped(s) == 1 }, late, time.Millisecond)
		reaches(t, tree, 0, 2)
		time.Sleep(50 * time.Millisecond) // for a process that goes on
		assert.Equal(t, 1, stopped(s), "to ask what is alive continues nothing")
		reaches(t, tree, syscall.SIGTERM, 2)
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
	exited(t, tree)
	require.NoError(t, tree.Release())
	gone(t, tree)
	assert.NoError(t, tree.Err())
	other, others := begin(t, scenario(t, "a tree of background children"))
	endNow(t, other)
	assert.Empty(t, others.Survivors())
	assert.Len(t, s.Survivors(), 1, "it does not count as part of another tree")
	reaches(t, tree, 0, 1)
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
	exited(t, tree)
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
		exited(t, ended)
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

// tracedVariable holds the PID that a tracer stops, and whether it stops it only after it has started a command.
const tracedVariable = "PROCTREE_TEST_TRACED"

// trace stops the guard as a debugger does until its standard input ends. Nobody but a look at /proc tells the host.
func trace() error {
	runtime.LockOSThread() // a tracer is a thread
	pid, later := 0, false
	if _, err := fmt.Sscan(os.Getenv(tracedVariable), &pid, &later); err != nil {
		return err
	}
	if err := syscall.PtraceAttach(pid); errors.Is(err, syscall.EPERM) {
		return errCannotHere
	} else if err != nil {
		return err
	}
	if _, err := syscall.Wait4(pid, nil, syscall.WALL, nil); err != nil {
		return err
	}
	fmt.Println("attached")
	if later {
		if err := awaitCommandOf(pid); err != nil {
			return err
		}
		fmt.Println("stopped")
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := syscall.PtraceDetach(pid); err != nil {
		return err
	}
	return nil
}

// awaitCommandOf lets a guard go on until it has started a command, and not as far as its answer.
func awaitCommandOf(pid int) error {
	const traceVforkDone, vforkDone = 0x20, 5
	if err := syscall.PtraceSetOptions(pid, traceVforkDone); err != nil {
		return err
	}
	for sig := 0; ; {
		if err := syscall.PtraceCont(pid, sig); err != nil {
			return err
		}
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(pid, &status, syscall.WALL, nil); err != nil {
			return err
		}
		if status.TrapCause() == vforkDone {
			return nil
		}
		sig = int(status.StopSignal())
	}
}

// stopByTracer has a debugger stop the guard, and returns what lets it go on.
func stopByTracer(t *testing.T, guard int, later bool) (lines *bufio.Scanner, resume func()) {
	cmd := again(self, "tracer", tracedVariable+"="+fmt.Sprint(guard, later))
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines = bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "attached" {
		skipIfCannot(t, cmd.Wait()) // see /proc/sys/kernel/yama/ptrace_scope
		require.FailNow(t, "cannot trace the guard", lines.Text())
	}
	return lines, sync.OnceFunc(func() {
		in.Close()
		assert.NoError(t, cmd.Wait())
	})
}

// TestUnansweredStart checks that a command ends whose guard was stopped after it started it and before it said so.
func TestUnansweredStart(t *testing.T) {
	keeps := start(t, "sleep", "100") // so that the guard lives on
	lines, resume := stopByTracer(t, guardOf(t, os.Getpid()), true)
	defer resume()
	s, c := commandOf(t, escape.Crowd(0))
	_, err := proctree.Start(c)
	assert.ErrorIs(t, err, proctree.ErrGuard)
	assert.ErrorContains(t, err, "stopped by a signal or a debugger")
	require.True(t, lines.Scan(), "the guard has started it")
	assert.Empty(t, s.Survivors())
	resume()
	endNow(t, keeps)
	assert.NoError(t, keeps.Err())
}

// TestWithdrawnStart checks that a guard that was stopped does not start a command that its host has given up.
func TestWithdrawnStart(t *testing.T) {
	keeps := start(t, "sleep", "100")
	text, err := os.ReadFile("/bin/true")
	require.NoError(t, err)
	program := filepath.Join(t.TempDir(), "true")
	require.NoError(t, os.WriteFile(program, text, 0o700))
	opened, err := syscall.InotifyInit1(syscall.IN_NONBLOCK | syscall.IN_CLOEXEC)
	require.NoError(t, err)
	defer syscall.Close(opened)
	_, err = syscall.InotifyAddWatch(opened, program, syscall.IN_OPEN)
	require.NoError(t, err)
	wasOpened := func() error { _, err := syscall.Read(opened, make([]byte, 4096)); return err }

	_, resume := stopByTracer(t, guardOf(t, os.Getpid()), false)
	defer resume()
	_, err = proctree.Start(proctree.Command{Path: program, Args: []string{"true"}})
	require.ErrorIs(t, err, proctree.ErrGuard)
	resume()
	_, err = keeps.Signal(0) // which the guard answers after it took the request
	require.NoError(t, err)
	assert.ErrorIs(t, wasOpened(), syscall.EAGAIN)

	gone(t, start(t, program))
	assert.NoError(t, wasOpened(), "a start opens it")
	endNow(t, keeps)
}

// startFromThread starts a command from another thread than the first one, and stays.
func startFromThread() error {
	started := make(chan error)
	var begin func()
	begin = func() {
		runtime.LockOSThread()
		if syscall.Gettid() == os.Getpid() {
			go begin()
			select {}
		}
		started <- exec.Command("sleep", "100").Start()
		select {}
	}
	go begin()
	if err := <-started; err != nil {
		return err
	}
	time.Sleep(5 * time.Minute)
	return nil
}

// TestThreads checks that a signal reaches what another thread than the first one has started.
func TestThreads(t *testing.T) {
	tree := startRole(t, "other thread")
	defer endNow(t, tree)
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(allChildrenOf(tree.PID()), func(child int) bool { return hasName(child, "sleep") })
	}, prompt, time.Millisecond)
	require.Empty(t, childrenOf(t, tree.PID()), "of its first thread")
	reaches(t, tree, 0, 2)
}
