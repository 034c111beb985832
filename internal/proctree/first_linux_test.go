//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
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
	all := append(awaitChildren(t, tree.PID(), 2), tree.PID())
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
	child := awaitChildren(t, tree.PID(), 1)[0]
	all := []int{child, tree.PID()}
	slices.Sort(all)
	_, resume := stopGuard(t)
	alive, err := tree.Processes()
	assert.NoError(t, err)
	slices.Sort(alive)
	assert.Equal(t, all, alive)
	assert.NoError(t, tree.SignalFirst(syscall.SIGTERM))
	require.Eventually(t, func() bool { return state(tree.PID()) == 'Z' }, late, time.Millisecond)
	assert.True(t, running(child), "a signal for the first process alone")
	resume()
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

const limitVariable = "PROCTREE_TEST_FILES"

// A counted is a tree of shells. Each prints a line when it is ready, and one for each SIGTERM and SIGWINCH.
type counted struct {
	tree                *proctree.Tree
	ready, terms, sizes atomic.Int64
	hold                *os.File // the shells read from it
	lines               sync.WaitGroup
}

// politeCrowd is a tree of shells. Their number is the script's first argument.
const politeCrowd = `shell() { trap 'echo term' TERM; trap 'echo size' WINCH; echo ready; while :; do read x; done; }
	i=0; while [ $i -lt $0 ]; do shell <&3 & i=$((i+1)); done; shell <&3`

func startCounted(children int) (*counted, error) {
	in, hold, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	out, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	c := &counted{hold: hold}
	c.tree, err = proctree.Start(proctree.Command{
		Path: "/bin/sh", Args: []string{"sh", "-c", politeCrowd, strconv.Itoa(children)}, Env: os.Environ(),
		Files: []*os.File{nil, theirs, nil, in},
	})
	if err != nil {
		return nil, err
	}
	c.lines.Go(func() {
		defer out.Close()
		for lines := bufio.NewScanner(out); lines.Scan(); {
			switch lines.Text() {
			case "ready":
				c.ready.Add(1)
			case "term":
				c.terms.Add(1)
			case "size":
				c.sizes.Add(1)
			}
		}
	})
	return c, c.wait(&c.ready, int64(children)+1)
}

func (c *counted) wait(count *atomic.Int64, want int64) error {
	for until := time.Now().Add(60 * time.Second); count.Load() < want; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			return fmt.Errorf("%d of %d after a minute", count.Load(), want)
		}
	}
	return nil
}

// signal sends SIGTERM and returns what Signal said and how many came.
func (c *counted) signal(want int64) (reached int, came int64, err error) {
	reached, err = c.tree.Signal(syscall.SIGTERM)
	return reached, c.came(want), err
}

// came returns how many SIGTERMs the processes got. A shell handles the signal with the lower number first, so whatever
// was sent before the SIGWINCH is counted when that is.
func (c *counted) came(want int64) int64 {
	_ = c.wait(&c.terms, want)
	if _, err := c.tree.Signal(syscall.SIGWINCH); err == nil {
		_ = c.wait(&c.sizes, want)
	}
	return c.terms.Load()
}

func (c *counted) end() error {
	defer c.hold.Close()
	if err := c.tree.Kill(); err != nil {
		return err
	}
	err := waitFor(c.tree.Gone())
	c.lines.Wait()
	return err
}

// fewFiles is a host with a limit of open files, which starts other commands and then one with many children.
func fewFiles() int {
	files, other, children := 0, 0, 0
	if _, err := fmt.Sscan(os.Getenv(limitVariable), &files, &other, &children); err != nil {
		panic(err)
	}
	limit := syscall.Rlimit{Cur: uint64(files), Max: uint64(files)}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		panic(err)
	}
	for range other {
		if _, err := proctree.Start(proctree.Command{Path: "/bin/sleep", Args: []string{"sleep", "1000"}}); err != nil {
			panic(err)
		}
	}
	c, err := startCounted(children)
	if err != nil {
		panic(err)
	}
	reached, came, err := c.signal(int64(children) + 1)
	fmt.Println(reached, came, err)
	if err := c.end(); err != nil {
		panic(err)
	}
	return 0
}

// TestFewFiles checks that a signal needs few descriptors, however many processes the tree has.
func TestFewFiles(t *testing.T) {
	t.Parallel()
	children := racing.Rounds(300, 1500)
	for _, other := range []int{0, 100} { // each takes two of the guard's descriptors
		t.Run(fmt.Sprintf("%d children beside %d commands", children, other), func(t *testing.T) {
			t.Parallel()
			cmd := again(t, "few files", limitVariable+"="+fmt.Sprint(256, other, children))
			cmd.Stdout = nil
			out, err := cmd.Output()
			require.NoError(t, err)
			assert.Equal(t, fmt.Sprintln(children+1, children+1, nil), string(out))
		})
	}
}

// TestSignalOnceBusy checks that no process gets a signal twice because the machine is too busy for a quick answer.
func TestSignalOnceBusy(t *testing.T) {
	children := racing.Rounds(100, 1000)
	for range racing.Rounds(5, 40) {
		spinner := start(t, "sh", "-c", "while :; do :; done")
		t.Cleanup(func() { endNow(t, spinner) })
	}
	c, err := startCounted(children)
	require.NoError(t, err)
	reached, came, err := c.signal(int64(children) + 1)
	assert.NoError(t, err)
	assert.Equal(t, children+1, reached)
	assert.EqualValues(t, children+1, came)
	require.NoError(t, c.end())
}

// TestSignalOnceStopped checks that a guard that was stopped does not signal again when it goes on.
func TestSignalOnceStopped(t *testing.T) {
	c, err := startCounted(3)
	require.NoError(t, err)
	_, resume := stopGuard(t)
	reached, err := c.tree.Signal(syscall.SIGTERM)
	assert.NoError(t, err)
	assert.Equal(t, 4, reached)
	resume()
	gone(t, start(t, "true")) // now the guard has read what it was told while it was stopped
	assert.EqualValues(t, 4, c.came(4))
	require.NoError(t, c.end())
}

// TestSignalLate checks that processes which the guard has ended count as reached, even if it answers late.
func TestSignalLate(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reached, err := proctree.SignalLate(sig, 5*time.Second)
				require.NoError(t, err)
				assert.Equal(t, 1, reached)
			})
		})
	}
}

// TestSignalMissed checks that Signal says how many processes it could not reach.
func TestSignalMissed(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	t.Parallel()
	require.NoError(t, again(t, "missed").Run())
}

// missOne is a host that may start a process of another user but may not signal it.
func missOne() int {
	const dropFromBounds, mayKill = 24, 5 // PR_CAPBSET_DROP, CAP_KILL
	in, hold, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	runtime.LockOSThread()
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, dropFromBounds, mayKill, 0); errno != 0 {
		panic(errno)
	}
	tree, err := proctree.Start(proctree.Command{
		Path: "/bin/sh", Args: []string{"sh", "-c", "read x"}, Dir: "/", Files: []*os.File{in},
		Attr: &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}})
	if err != nil {
		panic(err)
	}
	reached, err := tree.Signal(syscall.SIGTERM)
	var missed *proctree.MissedError
	if !errors.As(err, &missed) || missed.Processes != 1 || reached != 0 {
		panic(fmt.Sprint(reached, err))
	}
	if err := tree.Kill(); err != nil {
		panic(err)
	}
	for until := time.Now().Add(late); len(survivors(tree)) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			panic("no survivors")
		}
	}
	if err := hold.Close(); err != nil { // which ends it
		panic(err)
	}
	if err := waitFor(tree.Gone()); err != nil {
		panic(err)
	}
	return 0
}
