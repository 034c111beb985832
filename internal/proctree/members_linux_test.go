//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree_test

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/internal/proctree"
	"github.com/seed62658d38/watchdog/internal/racing"
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
	reaches(t, tree, 0, 1)

	_, resume := stopGuard(t)
	reaches(t, tree, 0, 1, "without the guard")
	resume()
	endNow(t, tree)
}

// TestWalkOnce checks that a process that is listed twice, as the child of a thread that ended is, is visited once.
func TestWalkOnce(t *testing.T) {
	tree := start(t, "sleep", "100")
	defer endNow(t, tree)
	found, complete := proctree.Walk(proctree.MarkOf(tree.PID()), tree.PID(), tree.PID())
	assert.Equal(t, []int{tree.PID()}, found)
	assert.True(t, complete)
}

// TestWalkEnds checks that a walk does not look below processes that were started after it began, or a tree that starts
// them fast enough would keep it for ever.
func TestWalkEnds(t *testing.T) {
	cmd := exec.Command("sh")
	orders, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Kill()
	var children []int
	var found []int
	complete := proctree.WalkAnd(proctree.NewMark(0), func(pid int) {
		found = append(found, pid)
		if pid != cmd.Process.Pid {
			return
		}
		time.Sleep(50 * time.Millisecond) // the start of a process is known in ticks of ten milliseconds
		_, err := orders.Write([]byte("sleep 100 &\n"))
		require.NoError(t, err)
		require.Eventually(t, func() bool { children = childrenOf(t, pid); return len(children) == 1 },
			prompt, time.Millisecond)
	}, cmd.Process.Pid)
	require.Len(t, children, 1)
	defer syscall.Kill(children[0], syscall.SIGKILL)
	assert.Equal(t, []int{cmd.Process.Pid, children[0]}, found)
	assert.False(t, complete, "it did not look below the child")
}

// TestKillWithoutGuard checks that a kill needs no guard, whether or not a signal went before it, and that what lives
// is told.
func TestKillWithoutGuard(t *testing.T) {
	for _, signalled := range []bool{false, true} {
		tree, s := begin(t, scenario(t, "all ignore INT and TERM"))
		_, resume := stopGuard(t)
		assert.Len(t, survivors(tree), s.Processes)
		if signalled {
			reaches(t, tree, syscall.SIGTERM, s.Processes)
		}
		require.NoError(t, tree.Kill())
		assert.Eventually(t, func() bool { return len(s.Survivors()) == 0 }, prompt, time.Millisecond)
		assert.Empty(t, survivors(tree))
		resume()
		gone(t, tree)
	}
}

// leaveQuietChild starts a process that sends no signal when it exits. It executes no program, which would change that.
//
//go:norace
func leaveQuietChild() error {
	child, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, 0, 0, 0, 0, 0, 0)
	for errno == 0 && child == 0 {
		syscall.RawSyscall6(syscall.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
	return asError(errno)
}

// TestQuietOrphan checks that the guard reaps an orphan that sends no signal when it exits.
func TestQuietOrphan(t *testing.T) {
	tree := startRole(t, "quiet child")
	exited(t, tree)
	require.Zero(t, tree.Status().ExitCode)
	orphans := childrenOf(t, guardOf(t, os.Getpid()))
	require.Len(t, orphans, 1)
	stays(t, tree)
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

// setLockLimit sets the soft limit of RLIMIT_LOCKS of a process, which is its mark.
func setLockLimit(t *testing.T, pid int, mark proctree.Mark) {
	t.Helper()
	const locks = 10
	limit := [2]uint64{uint64(mark), ^uint64(0)}
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), locks, uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
	require.Zero(t, errno)
}

// TestForeignMark checks that an orphan that set its limit to what looks like the mark of another tree belongs to the only
// tree, and to none if there are several.
func TestForeignMark(t *testing.T) {
	abandoned := func() (tree *proctree.Tree, orphan int) {
		tree = start(t, "sh", "-c", "setsid sleep 100 & exec sleep 100")
		orphan = awaitChildren(t, tree.PID(), 1)[0]
		require.Eventually(t, func() bool { return hasName(orphan, "sleep") }, prompt, time.Millisecond)
		setLockLimit(t, orphan, proctree.NewMark(0))
		require.NoError(t, syscall.Kill(tree.PID(), syscall.SIGKILL))
		exited(t, tree)
		return tree, orphan
	}
	t.Run("the only tree", func(t *testing.T) {
		tree, orphan := abandoned()
		stays(t, tree)
		endNow(t, tree)
		assert.False(t, running(orphan))
	})
	t.Run("one of several", func(t *testing.T) {
		one, other := start(t, "sleep", "100"), start(t, "sleep", "100")
		tree, orphan := abandoned()
		gone(t, tree)
		endNow(t, one)
		assert.True(t, running(orphan), "it does not belong to a tree beside its own")
		endNow(t, other)
		assert.False(t, running(orphan), "it ends with the last")
	})
}

func hasName(pid int, name string) bool {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	return string(text) == name+"\n"
}

// TestSurvived checks that only what a kill cannot end counts as a survivor before ten seconds have passed.
func TestSurvived(t *testing.T) {
	const soon, bound = 500 * time.Millisecond, 10 * time.Second
	for _, c := range []struct {
		since    time.Duration
		alive    int
		dying    bool
		survived bool
	}{
		{since: soon - 1, alive: 1},
		{since: soon, alive: 1, survived: true},
		{since: soon, alive: 1, dying: true},
		{since: bound - 1, alive: 1, dying: true},
		{since: bound, alive: 1, dying: true, survived: true},
		{since: time.Hour},
	} {
		assert.Equal(t, c.survived, proctree.Survived(c.since, c.alive, c.dying), "%+v", c)
	}
}

func TestMark(t *testing.T) {
	outer, other := proctree.NewMark(0), proctree.NewMark(0)
	inner, second := proctree.NewMark(outer), proctree.NewMark(outer)
	assert.True(t, proctree.Covers(outer, outer))
	assert.True(t, proctree.Covers(outer, inner), "a tree inside of the tree")
	assert.True(t, proctree.Covers(inner, inner))
	assert.False(t, proctree.Covers(inner, outer), "a tree around the tree")
	assert.False(t, proctree.Covers(inner, second), "a tree beside the tree")
	assert.False(t, proctree.Covers(outer, other))
	assert.False(t, proctree.Covers(outer, 0), "no mark")
	assert.False(t, proctree.Covers(inner, 0), "no mark")
}

// TestNestedOrphan checks that an orphan of a guard inside of a tree belongs to the tree while another tree runs.
func TestNestedOrphan(t *testing.T) {
	neighbour := start(t, "sleep", "1000")
	tree, s := begin(t, scenario(t, "a host of its own"))
	guard := guardOf(t, tree.PID())
	require.NoError(t, syscall.Kill(guard, syscall.SIGSTOP)) // or it would end the daemon
	require.NoError(t, syscall.Kill(tree.PID(), syscall.SIGKILL))
	require.NoError(t, syscall.Kill(guard, syscall.SIGKILL))
	exited(t, tree)
	require.Eventually(t, func() bool { return !running(guard) }, late, time.Millisecond)
	for range 2 { // after each answer the outer guard looks whether anything is left
		_, err := tree.Signal(0)
		require.NoError(t, err)
	}
	require.NotEmpty(t, s.Survivors(), "the daemon of the inner host")
	select {
	case <-tree.Gone():
		assert.Fail(t, "gone while a daemon is alive")
	default:
	}
	endNow(t, tree)
	assert.Empty(t, s.Survivors())
	assert.True(t, running(neighbour.PID()))
	endNow(t, neighbour)
}

// TestGuardAndHostKilled checks that the first process of a tree ends even if guard and host are killed together.
func TestGuardAndHostKilled(t *testing.T) {
	t.Parallel()
	host, guard, s := beginHost(t, escape.Crowd(0))
	require.NoError(t, syscall.Kill(guard, syscall.SIGSTOP))
	require.NoError(t, host.Kill())
	require.NoError(t, syscall.Kill(guard, syscall.SIGKILL))
	assert.Eventually(t, func() bool { return len(s.Survivors()) == 0 }, late, time.Millisecond)
}

// TestRelay checks that a tree is not gone as long as it consists of processes that each start the next and exit.
func TestRelay(t *testing.T) {
	script := filepath.Join(t.TempDir(), "relay")
	require.NoError(t, os.WriteFile(script, []byte(`sh "$0" &`), 0o600))
	for range racing.Rounds(1, 20) {
		neighbour := start(t, "sleep", "1000")
		tree := start(t, "sh", script)
		exited(t, tree)
		missed := 0
		for range 2000 {
			if _, err := tree.Signal(0); err != nil {
				missed++
			}
		}
		assert.Less(t, missed, 2, "it looks again for what was started meanwhile")
		select {
		case <-tree.Gone():
			require.Fail(t, "gone while a process is alive")
		case <-time.After(racing.Rounds(200*time.Millisecond, time.Second)):
		}
		endNow(t, tree)
		endNow(t, neighbour)
	}
}

// awaitChildren waits until the first thread of a process has so many children, and returns them.
func awaitChildren(t *testing.T, pid, n int) (all []int) {
	t.Helper()
	require.Eventually(t, func() bool { all = childrenOf(t, pid); return len(all) == n }, late, time.Millisecond)
	return all
}

func childrenOf(t *testing.T, pid int) (all []int) {
	t.Helper()
	id := strconv.Itoa(pid)
	text, err := os.ReadFile("/proc/" + id + "/task/" + id + "/children")
	require.NoError(t, err)
	for child := range strings.FieldsSeq(string(text)) {
		all = append(all, atoi(t, child))
	}
	return all
}

// TestRounds checks that a signal looks again for what was started meanwhile, and how often at most.
func TestRounds(t *testing.T) {
	for finds, want := range map[int]int{0: 1, 1: 2, 3: 4, 9: 4} {
		assert.Equal(t, want, proctree.Rounds(finds), finds)
	}
}

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
	exited(t, tree)
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
	exited(t, tree)
	require.Equal(t, syscall.SIGTERM, tree.Status().Signal)
	endNow(t, tree)
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
func fewFiles() error {
	files, other, children := 0, 0, 0
	if _, err := fmt.Sscan(os.Getenv(limitVariable), &files, &other, &children); err != nil {
		return err
	}
	limit := syscall.Rlimit{Cur: uint64(files), Max: uint64(files)}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	for range other {
		if _, err := proctree.Start(sleepWith(0)); err != nil {
			return err
		}
	}
	c, err := startCounted(children)
	if err != nil {
		return err
	}
	reached, came, err := c.signal(int64(children) + 1)
	fmt.Println(reached, came, err)
	return c.end()
}

// TestFewFiles checks that a signal needs few descriptors, however many processes the tree has.
func TestFewFiles(t *testing.T) {
	t.Parallel()
	children := racing.Rounds(300, 1500)
	for _, other := range []int{0, 100} { // each takes two of the guard's descriptors
		t.Run(fmt.Sprintf("%d children beside %d commands", children, other), func(t *testing.T) {
			t.Parallel()
			text := runRole(t, self, "few files", limitVariable+"="+fmt.Sprint(256, other, children))
			assert.Equal(t, fmt.Sprint(children+1, " ", children+1, " <nil>"), text)
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
	reaches(t, c.tree, syscall.SIGTERM, 4)
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
	runRole(t, self, "missed")
}

// missOne is a host that may start a process of another user but may not signal it.
func missOne() error {
	const dropFromBounds, mayKill = 24, 5 // PR_CAPBSET_DROP, CAP_KILL
	in, hold, err := os.Pipe()
	if err := cmp.Or(err, escape.ChangeThread(syscall.SYS_PRCTL, dropFromBounds, mayKill, 0)); err != nil {
		return err
	}
	tree, err := proctree.Start(proctree.Command{
		Path: "/bin/sh", Args: []string{"sh", "-c", "read x"}, Dir: "/", Files: []*os.File{in},
		Attr: &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}})
	if err != nil {
		return err
	}
	reached, err := tree.Signal(syscall.SIGTERM)
	var missed *proctree.MissedError
	if !errors.As(err, &missed) || missed.Processes != 1 || reached != 0 {
		return fmt.Errorf("%d reached: %w", reached, err)
	}
	err = tree.Kill()
	for until := time.Now().Add(late); err == nil && len(survivors(tree)) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			err = errors.New("no survivors")
		}
	}
	return errors.Join(err, hold.Close(), waitFor(tree.Gone())) // the end of its input ends it
}
