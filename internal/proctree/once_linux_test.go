//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/proctree"
	"github.com/seed62658d38/watchdog/internal/racing"
)

const limitVariable = "PROCTREE_TEST_FILES"

// A counted is a tree of shells. Each prints a line when it is ready, and one for each SIGTERM and SIGWINCH.
type counted struct {
	tree                       *proctree.Tree
	ready, terms, sizes, spins atomic.Int64
	hold                       *os.File // the shells read from it
	lines                      sync.WaitGroup
}

// politeCrowd is a tree of shells. Their number is the script's first argument.
const politeCrowd = `shell() { trap 'echo term' TERM; trap 'echo size' WINCH; echo ready; while :; do read x; done; }
	i=0; while [ $i -lt $0 ]; do shell <&3 & i=$((i+1)); done; shell <&3`

// bomb is a tree of shells in sessions of their own that ignore signals, and spin from when their input ends.
const bomb = `i=0; while [ $i -lt $0 ]; do
	setsid sh -c 'trap "" INT TERM; echo ready; read x; echo spins; while :; do :; done' <&3 &
	i=$((i+1)); done; echo ready; wait; wait`

func startCounted(script string, children int) (*counted, error) {
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
		Path: "/bin/sh", Args: []string{"sh", "-c", script, strconv.Itoa(children)}, Env: os.Environ(),
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
			case "spins":
				c.spins.Add(1)
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
	c, err := startCounted(politeCrowd, children)
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
	c, err := startCounted(politeCrowd, children)
	require.NoError(t, err)
	reached, came, err := c.signal(int64(children) + 1)
	assert.NoError(t, err)
	assert.Equal(t, children+1, reached)
	assert.EqualValues(t, children+1, came)
	require.NoError(t, c.end())
}

// TestSignalOnceStopped checks that a guard that was stopped does not signal again when it goes on.
func TestSignalOnceStopped(t *testing.T) {
	c, err := startCounted(politeCrowd, 3)
	require.NoError(t, err)
	guard := guardOf(t, os.Getpid())
	require.NoError(t, syscall.Kill(guard, syscall.SIGSTOP))
	reached, err := c.tree.Signal(syscall.SIGTERM)
	assert.NoError(t, err)
	assert.Equal(t, 4, reached)
	require.NoError(t, syscall.Kill(guard, syscall.SIGCONT))
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

// TestBomb checks that a tree that keeps the machine busy ends soon.
func TestBomb(t *testing.T) {
	if testing.Short() || racing.Enabled {
		t.Skip("it keeps the machine busy")
	}
	spinners := racing.Rounds(50, 300)
	c, err := startCounted(bomb, spinners)
	require.NoError(t, err)
	require.NoError(t, c.hold.Close())
	require.NoError(t, c.wait(&c.spins, int64(spinners)))
	tree := c.tree
	began := time.Now()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		reached, err := tree.Signal(sig)
		require.NoError(t, err)
		t.Logf("%v reached %d after %v", sig, reached, time.Since(began))
	}
	require.NoError(t, tree.Kill())
	within(t, late, tree.Gone(), "not gone")
	t.Logf("gone after %v", time.Since(began))
}
