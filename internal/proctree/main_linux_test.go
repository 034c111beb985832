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
	"path/filepath"
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
	"refused":       startWithRefusedCall,
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

// A processInfo is what a process in the print role prints about itself.
type processInfo struct {
	Dir        string
	Umask      int
	Args       []byte // joined by NUL; bytes, because JSON would change invalid UTF-8
	Env        []byte
	Open       []bool // whether descriptors 0 to 19 are open; the program opens some itself
	Group, SID int
	PPID, UID  int
	Fourth     string // what could be read from descriptor 4
}

// printProcess writes what this process is to descriptor 3.
func printProcess() error {
	var s processInfo
	for fd := range 20 {
		var st syscall.Stat_t
		s.Open = append(s.Open, fd < 3 || syscall.Fstat(fd, &st) == nil)
	}
	s.Dir, _ = os.Readlink("/proc/self/cwd")
	s.Umask = syscall.Umask(0)
	s.Args, s.Env = []byte(strings.Join(os.Args, "\x00")), []byte(strings.Join(os.Environ(), "\x00"))
	s.Group, s.PPID, s.UID = syscall.Getpgrp(), os.Getppid(), os.Getuid()
	sid, _, _ := syscall.RawSyscall(syscall.SYS_GETSID, 0, 0, 0)
	s.SID = int(sid)
	if s.Open[4] && len(os.Args) > 1 && os.Args[1] == "read" {
		text, _ := io.ReadAll(os.NewFile(4, ""))
		s.Fourth = string(text)
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	_, err = os.NewFile(3, "answer").Write(text)
	return err
}

// runPrint starts this program in the print role and returns what it prints, and its PID.
func runPrint(t *testing.T, change func(*proctree.Command)) (processInfo, int) {
	answer, theirs, err := os.Pipe()
	require.NoError(t, err)
	defer answer.Close()
	c := proctree.Command{
		Path: self, Args: []string{"print"}, Env: append(os.Environ(), roleVariable+"=print"),
		Files: []*os.File{nil, nil, nil, theirs},
	}
	change(&c)
	tree := startCommand(t, c)
	theirs.Close()
	text, err := io.ReadAll(answer)
	require.NoError(t, err)
	gone(t, tree)
	require.Equal(t, 0, tree.Status().ExitCode)
	var s processInfo
	require.NoError(t, json.Unmarshal(text, &s))
	return s, tree.PID()
}

func TestDir(t *testing.T) {
	here, err := os.Getwd()
	require.NoError(t, err)
	other, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(other, "below"), 0o700))
	workingDir := func(dir string) string {
		s, _ := runPrint(t, func(c *proctree.Command) { c.Dir = dir })
		withAttr, _ := runPrint(t, func(c *proctree.Command) { c.Dir, c.Attr = dir, &syscall.SysProcAttr{Setsid: true} })
		assert.Equal(t, s.Dir, withAttr.Dir)
		guards, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", s.PPID))
		require.NoError(t, err)
		assert.Equal(t, "/", guards, "it keeps no folder busy")
		return s.Dir
	}
	assert.Equal(t, here, workingDir(""), "the host's if none is given")
	assert.Equal(t, other, workingDir(other))
	t.Chdir(other)
	assert.Equal(t, other, workingDir(""), "the host's at the start of the command, not of the guard")
	assert.Equal(t, filepath.Join(other, "below"), workingDir("below"), "a relative one starts at the host's")

	removed := filepath.Join(other, "removed")
	require.NoError(t, os.Mkdir(removed, 0o700))
	t.Chdir(removed)
	require.NoError(t, os.Remove(removed))
	assert.Equal(t, removed+" (deleted)", workingDir(""), "the host's directory even if it was removed")

	_, err = proctree.Start(proctree.Command{Path: "/bin/true", Args: []string{"true"}, Dir: "/no/such"})
	var path *os.PathError
	require.ErrorAs(t, err, &path)
	assert.Equal(t, os.PathError{Op: "chdir", Path: "/no/such", Err: syscall.ENOENT}, *path,
		"the error names the directory")
}

func TestInheritance(t *testing.T) {
	t.Run("the umask that the host has at the start", func(t *testing.T) {
		start(t, "true")
		before := syscall.Umask(0o027)
		defer syscall.Umask(before)
		s, _ := runPrint(t, func(*proctree.Command) {})
		assert.Equal(t, 0o027, s.Umask)
	})
	t.Run("arguments and environment with any byte but NUL", func(t *testing.T) {
		odd := "\xff\xfe<&>\"\n\u2028 \x01"
		s, _ := runPrint(t, func(c *proctree.Command) {
			c.Args = []string{odd, "", odd}
			c.Env = []string{roleVariable + "=print", "ODD=" + odd, "EMPTY="}
		})
		assert.Equal(t, odd+"\x00\x00"+odd, string(s.Args))
		assert.Equal(t, roleVariable+"=print\x00ODD="+odd+"\x00EMPTY=", string(s.Env))
	})
	t.Run("an environment of 1 MiB", func(t *testing.T) {
		var env []string
		for i := range 16 {
			env = append(env, fmt.Sprintf("LONG%d=%s", i, strings.Repeat("x", 64<<10)))
		}
		env = append(env, roleVariable+"=print")
		s, _ := runPrint(t, func(c *proctree.Command) { c.Env = env })
		assert.Equal(t, strings.Join(env, "\x00"), string(s.Env))
	})
	t.Run("the descriptors that are given and no others", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "fourth")
		require.NoError(t, os.WriteFile(file, []byte("what is in it"), 0o600))
		fourth, err := os.Open(file)
		require.NoError(t, err)
		defer fourth.Close()
		closed, err := os.Open(file)
		require.NoError(t, err)
		closed.Close()
		given := make([]*os.File, 16) // from 4
		given[0], given[14], given[15] = fourth, fourth, closed
		s, _ := runPrint(t, func(c *proctree.Command) {
			c.Files = append(c.Files, given...)
			c.Args = []string{"print", "read"}
		})
		assert.Equal(t, "what is in it", s.Fourth)
		assert.Equal(t, []bool{false, true, false}, s.Open[17:], "a nil file and a closed file are closed descriptors")
	})
	t.Run("a group of its own", func(t *testing.T) {
		s, pid := runPrint(t, func(*proctree.Command) {})
		assert.Equal(t, pid, s.Group)
		assert.Equal(t, guardOf(t, os.Getpid()), s.PPID)
	})
	t.Run("the host's group", func(t *testing.T) {
		s, _ := runPrint(t, func(c *proctree.Command) { c.SameGroup = true })
		assert.Equal(t, syscall.Getpgrp(), s.Group)
	})
	t.Run("a session of its own", func(t *testing.T) {
		s, pid := runPrint(t, func(c *proctree.Command) { c.Attr = &syscall.SysProcAttr{Setsid: true} })
		assert.Equal(t, []int{pid, pid}, []int{s.SID, s.Group})
	})
	t.Run("another user", func(t *testing.T) {
		if os.Getuid() != 0 {
			t.Skip("only root can become another user")
		}
		tree := startCommand(t, proctree.Command{Path: "/bin/sleep", Args: []string{"sleep", "1000"}, Dir: "/",
			Attr: &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}})
		info, err := os.Stat(fmt.Sprintf("/proc/%d", tree.PID()))
		require.NoError(t, err)
		assert.EqualValues(t, 65534, info.Sys().(*syscall.Stat_t).Uid)
		endNow(t, tree)
	})
}

func TestStatus(t *testing.T) {
	t.Run("an exit status", func(t *testing.T) {
		tree := start(t, "sh", "-c", "exit 7")
		gone(t, tree)
		assert.Equal(t, 7, tree.Status().ExitCode)
		assert.Zero(t, tree.Status().Signal)
		assert.Equal(t, "exit status 7", tree.Status().State.String())
		assert.Equal(t, tree.PID(), tree.Status().State.Pid())
	})
	t.Run("a signal", func(t *testing.T) {
		tree := start(t, "sleep", "1000")
		assert.Equal(t, -1, tree.Status().ExitCode)
		assert.Nil(t, tree.Status().State, "it has not ended")
		reaches(t, tree, syscall.SIGUSR1, 1)
		gone(t, tree)
		assert.Equal(t, -1, tree.Status().ExitCode)
		assert.Equal(t, syscall.SIGUSR1, tree.Status().Signal)
		_, err := tree.Signal(syscall.SIGTERM)
		assert.ErrorIs(t, err, proctree.ErrEnded)
		assert.NoError(t, tree.Kill())
	})
	t.Run("the used time and memory", func(t *testing.T) {
		tree := start(t, "sh", "-c", "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done")
		gone(t, tree)
		assert.Positive(t, tree.Status().User+tree.Status().System)
		assert.Greater(t, tree.Status().MaxRSS, int64(100<<10), "in bytes")
	})
}

// TestRefusals compares the errors with those of package os.
func TestRefusals(t *testing.T) {
	folder := t.TempDir()
	plain, empty := filepath.Join(folder, "plain"), filepath.Join(folder, "empty")
	require.NoError(t, os.WriteFile(plain, []byte("#!/bin/true\n"), 0o600))
	require.NoError(t, os.WriteFile(empty, []byte("\x00\x00"), 0o700))
	long := []string{"LONG=" + strings.Repeat("x", 3<<20)}
	for name, c := range map[string]struct {
		path string
		env  []string
		want syscall.Errno
	}{
		"no such program":    {"/no/such", nil, syscall.ENOENT},
		"not executable":     {plain, nil, syscall.EACCES},
		"not a program":      {empty, nil, syscall.ENOEXEC},
		"too long":           {"/bin/true", long, syscall.E2BIG},
		"a NUL in it":        {"/bin/true", []string{"A=\x00"}, syscall.EINVAL},
		"a folder":           {folder, nil, syscall.EACCES},
		"below a plain file": {plain + "/x", nil, syscall.ENOTDIR},
	} {
		t.Run(name, func(t *testing.T) {
			_, theirs := os.StartProcess(c.path, []string{"x"}, &os.ProcAttr{Env: c.env})
			tree, ours := proctree.Start(proctree.Command{Path: c.path, Args: []string{"x"}, Env: c.env})
			assert.Nil(t, tree)
			assert.Equal(t, &os.PathError{Op: "fork/exec", Path: c.path, Err: c.want}, ours)
			assert.Equal(t, theirs, ours)
			assert.NotErrorIs(t, ours, proctree.ErrGuard)
		})
	}
}

func TestUnsupported(t *testing.T) {
	fd := 0
	for name, attr := range map[string]*syscall.SysProcAttr{
		"Pgid": {Pgid: 1}, "Foreground": {Foreground: true}, "Ptrace": {Ptrace: true}, "PidFD": {PidFD: &fd},
		"UseCgroupFD": {UseCgroupFD: true}, "Chroot": {Chroot: "/"},
	} {
		_, err := proctree.Start(proctree.Command{Path: "/bin/true", Args: []string{"true"}, Attr: attr})
		require.ErrorIs(t, err, proctree.ErrUnsupported)
		assert.ErrorContains(t, err, "SysProcAttr."+name)
	}
	_, err := proctree.Start(proctree.Command{Path: "/bin/true", Args: []string{"true"}, Files: make([]*os.File, 251)})
	assert.ErrorIs(t, err, proctree.ErrUnsupported)
}

func TestChroot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can change its root")
	}
	path, err := exec.LookPath("true")
	require.NoError(t, err)
	_, err = proctree.Start(proctree.Command{
		Path: path, Args: []string{"true"}, Dir: "/", Attr: &syscall.SysProcAttr{Chroot: t.TempDir()},
	})
	assert.ErrorIs(t, err, syscall.ENOENT, "the path is below the new root")
}

// BenchmarkKill measures the time from the kill until all processes are gone. It compares with killing a process group
// and waiting for its leader, which does not prove that the others are gone.
func BenchmarkKill(b *testing.B) {
	for _, size := range []int{1, 200} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			b.Run("group", func(b *testing.B) { measure(b, size, startGroup) })
			b.Run("group until gone", func(b *testing.B) { measure(b, size, startGroupProven) })
			b.Run("tree", func(b *testing.B) { measure(b, size, startTree) })
		})
	}
}

func measure(b *testing.B, size int, start func(*testing.B, escape.Scenario) func()) {
	b.Helper()
	folder := b.TempDir()
	var took time.Duration
	for range b.N {
		s := escape.Crowd(size - 1).In(folder)
		end := start(b, s)
		require.NoError(b, s.Ready(late))
		time.Sleep(5 * time.Millisecond) // let the new processes settle
		began := time.Now()
		end()
		took += time.Since(began)
		s.End()
	}
	b.ReportMetric(float64(took.Microseconds())/float64(b.N), "µs/kill")
}

func startGroup(b *testing.B, s escape.Scenario) func() {
	b.Helper()
	path, args, env := s.Command()
	cmd := &exec.Cmd{Path: path, Args: args, Env: env, SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}
	require.NoError(b, cmd.Start())
	return func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	}
}

// startGroupProven also polls, at short intervals, until the others are gone.
func startGroupProven(b *testing.B, s escape.Scenario) func() {
	b.Helper()
	end := startGroup(b, s)
	return func() {
		end()
		for len(escape.Alive(s.Registry())) > 0 {
			time.Sleep(50 * time.Microsecond)
		}
	}
}

func startTree(b *testing.B, s escape.Scenario) func() {
	b.Helper()
	path, args, env := s.Command()
	tree := startCommand(b, proctree.Command{Path: path, Args: args, Env: env})
	return func() {
		_ = tree.Kill()
		<-tree.Gone()
	}
}
