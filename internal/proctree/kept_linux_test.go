//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/internal/proctree"
)

// leave starts a server in a session of its own and exits.
func leave() int {
	server := exec.Command("/proc/self/exe", os.Args[1:]...)
	server.Env = append(os.Environ(), roleVariable+"=server")
	server.Stdin, server.Stdout, server.Stderr = os.Stdin, os.Stdout, os.Stderr
	server.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := server.Start(); err != nil {
		return failed(err)
	}
	return 0
}

// serve does what the lines of its standard input say, and prints a PID after each.
func serve() int {
	fmt.Println(os.Getpid())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		pid, err := os.Getpid(), error(nil)
		switch lines.Text() {
		case "clear":
			err = clearMark()
		case "child":
			pid, err = startSleeper(false)
		case "daemon":
			pid, err = startDaemon()
		}
		if err != nil {
			return failed(err)
		}
		fmt.Println(pid)
	}
	time.Sleep(time.Hour)
	return 0
}

func clearMark() error {
	const locks = 10
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(locks, &limit); err != nil {
		return err
	}
	limit.Cur = limit.Max
	return syscall.Setrlimit(locks, &limit)
}

// startSleeper starts a sleep command, which has the token of its parent and an empty environment. It waits until /proc
// shows the arguments, which it does only a moment after the program was executed.
func startSleeper(setsid bool) (pid int, err error) {
	child, err := os.StartProcess("/bin/sleep", []string{"sleep", os.Args[1]}, &os.ProcAttr{
		Env: []string{}, Sys: &syscall.SysProcAttr{Setsid: setsid},
	})
	if err != nil {
		return 0, err
	}
	for {
		shown, err := os.ReadFile("/proc/" + strconv.Itoa(child.Pid) + "/cmdline")
		if err != nil || len(shown) > 0 {
			return child.Pid, err
		}
		time.Sleep(time.Millisecond)
	}
}

// startDaemon starts a sleep command by a process that has exited when it returns.
func startDaemon() (pid int, err error) {
	middle := exec.Command("/proc/self/exe", os.Args[1:]...)
	middle.Env = append(os.Environ(), roleVariable+"=forker")
	out, err := middle.Output()
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(out)))
}

// fork starts a sleep command in a session of its own and exits.
func fork() int {
	pid, err := startSleeper(true)
	if err != nil {
		return failed(err)
	}
	fmt.Println(pid)
	return 0
}

// A server is a tree whose leader has exited and has left a server behind, which does as it is told.
type server struct {
	t     *testing.T
	tree  *proctree.Tree
	token string
	pid   int
	in    *os.File
	out   *bufio.Scanner
}

func startServer(t *testing.T) *server {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	theirIn, in, err := os.Pipe()
	require.NoError(t, err)
	out, theirOut, err := os.Pipe()
	require.NoError(t, err)
	s := &server{t: t, token: escape.Crowd(0).In(t.TempDir()).Token(), in: in, out: bufio.NewScanner(out)}
	s.tree, err = proctree.Start(proctree.Command{
		Path: self, Args: []string{"server", s.token}, Files: []*os.File{theirIn, theirOut, os.Stderr},
		Env: append(os.Environ(), roleVariable+"=leave"), Releases: true,
	})
	require.NoError(t, err)
	require.NoError(t, theirIn.Close())
	require.NoError(t, theirOut.Close())
	t.Cleanup(func() {
		s.end()
		_ = in.Close()
		_ = out.Close()
	})
	s.pid = s.answer()
	within(t, late, s.tree.Exited(), "the leader has not ended")
	return s
}

func (s *server) answer() int {
	s.t.Helper()
	require.True(s.t, s.out.Scan(), "the server has ended")
	return atoi(s.t, s.out.Text())
}

// do tells the server what to do, and returns the last PID that it answers.
func (s *server) do(all ...string) (pid int) {
	s.t.Helper()
	for _, what := range all {
		_, err := fmt.Fprintln(s.in, what)
		require.NoError(s.t, err)
		pid = s.answer()
	}
	return pid
}

func (s *server) release() {
	s.t.Helper()
	require.NoError(s.t, s.tree.Release())
	gone(s.t, s.tree)
	require.NoError(s.t, s.tree.Err())
}

func (s *server) alive() int { return len(escape.WithToken(s.token)) }

// kill kills the server alone.
func (s *server) kill() {
	s.t.Helper()
	require.NoError(s.t, syscall.Kill(s.pid, syscall.SIGKILL))
	require.Eventually(s.t, func() bool { return !running(s.pid) }, late, time.Millisecond)
}

// end kills the server and all that it has started.
func (s *server) end() {
	for left := escape.WithToken(s.token); len(left) > 0; left = escape.WithToken(s.token) {
		for _, p := range left {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
		time.Sleep(time.Millisecond)
	}
}

// runOthers runs commands that have nothing to do with a server: half of them are killed.
func runOthers(t *testing.T) {
	t.Helper()
	for range 10 {
		gone(t, start(t, "true"))
		endNow(t, start(t, "sleep", "100"))
	}
}

// TestKept checks that what Release let go lives on, though nothing marks it any more.
func TestKept(t *testing.T) {
	for _, before := range []bool{true, false} {
		t.Run(fmt.Sprintf("a server that cleared its mark, before its release: %t", before), func(t *testing.T) {
			s := startServer(t)
			if before {
				s.do("clear")
			}
			s.release()
			if !before {
				s.do("clear")
			}
			s.do("child", "daemon")
			runOthers(t)
			require.Equal(t, 3, s.alive(), "the server, its child and its daemon")

			other := startServer(t)
			other.do("clear", "child", "daemon")
			endNow(t, other.tree)
			require.Zero(t, other.alive(), "a tree beside it is ended, whatever it cleared")
			require.Equal(t, 3, s.alive())

			s.kill()
			runOthers(t)
			assert.Equal(t, 2, s.alive(), "what the server leaves when it ends")
		})
	}
	t.Run("beside a command that was there before", func(t *testing.T) {
		neighbour := start(t, "sleep", "100")
		s := startServer(t)
		s.do("daemon", "clear")
		s.release()
		s.do("child")
		gone(t, start(t, "true"))
		s.kill()
		endNow(t, neighbour)
		assert.Equal(t, 2, s.alive())
	})
	t.Run("a server that nothing ties to its tree, which is gone before it is released", func(t *testing.T) {
		neighbour := start(t, "sleep", "100")
		s := startServer(t)
		s.do("clear")
		gone(t, s.tree)
		s.do("child")
		require.NoError(t, s.tree.Kill(), "which ends nothing that may be of another tree")
		_, err := s.tree.Processes()
		require.ErrorIs(t, err, proctree.ErrEnded)
		endNow(t, neighbour)
		assert.Equal(t, 2, s.alive())
	})
	t.Run("several, of which some have ended", func(t *testing.T) {
		var all []*server
		for i := range 4 {
			s := startServer(t)
			s.do("clear", "daemon")
			s.release()
			if all = append(all, s); i%2 == 0 {
				s.end()
			}
		}
		runOthers(t)
		for i, s := range all {
			assert.Equal(t, i%2*2, s.alive())
		}
	})
}

// TestKeptOutlivesHost kills the host, or its guard, of what was kept, and checks that this lives on.
func TestKeptOutlivesHost(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"host", "guard"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			token := escape.Crowd(0).In(t.TempDir()).Token()
			out, theirs, err := os.Pipe()
			require.NoError(t, err)
			defer out.Close()
			s := &server{t: t, token: token}
			t.Cleanup(s.end)
			host := startHostOf(t, "host", proctree.Command{
				Path: "/bin/sh", Args: []string{"sh", "-c", "setsid sleep " + token + " & exit 0"}, Env: os.Environ(), Releases: true,
			}, theirs)
			require.NoError(t, theirs.Close())
			require.True(t, bufio.NewScanner(out).Scan())
			guard := guardOf(t, host.Process.Pid)
			require.Eventually(t, func() bool { return s.alive() == 1 }, late, time.Millisecond)
			before := escape.WithToken(token)
			killed := host.Process.Pid
			if name == "guard" {
				killed = guard
			}
			require.NoError(t, syscall.Kill(killed, syscall.SIGKILL))
			require.Eventually(t, func() bool { return !running(guard) }, late, time.Millisecond)
			require.Equal(t, before, escape.WithToken(token))
		})
	}
}

// TestKeptForgets checks that the guard does not remember for ever what was kept.
func TestKeptForgets(t *testing.T) {
	t.Parallel() // the child is reaped when init gets to it
	cmd := exec.Command("sh", "-c", "sleep 100 & wait")
	require.NoError(t, cmd.Start())
	child := awaitChildren(t, cmd.Process.Pid, 1)[0]
	k := proctree.NewKeptTree(proctree.NewMark(0))
	members, empty := k.Look(cmd.Process.Pid)
	assert.Equal(t, 2, members)
	assert.False(t, empty)
	require.NoError(t, cmd.Process.Kill())
	assert.Error(t, cmd.Wait())
	members, empty = k.Look()
	assert.Equal(t, 1, members, "a child that has another parent now")
	assert.False(t, empty)
	require.NoError(t, syscall.Kill(child, syscall.SIGKILL))
	require.Eventually(t, func() bool { return state(child) == 0 }, late, time.Millisecond)
	members, empty = k.Look()
	assert.Zero(t, members)
	assert.False(t, empty, "a process may have lost its parent during this look")
	_, empty = k.Look()
	assert.True(t, empty)
}
