//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/internal/proctree"
	"github.com/seed62658d38/watchdog/internal/racing"
)

// leave starts a server in a session of its own and exits.
func leave() error {
	server := exec.Command(self, os.Args[1:]...)
	server.Env = append(os.Environ(), roleVariable+"=server")
	server.Stdin, server.Stdout, server.Stderr = os.Stdin, os.Stdout, os.Stderr
	server.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := server.Start(); err != nil {
		return err
	}
	return nil
}

// serve does what the lines of its standard input say, and prints a PID after each.
func serve() error {
	fmt.Println(os.Getpid())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		pid, err := os.Getpid(), error(nil)
		switch lines.Text() {
		case "clear":
			err = clearMark()
		case "child":
			pid, err = startSleeper(false)
		case "daemon":
			pid, err = startDaemon("forker")
		case "orphan":
			pid, err = startDaemon("group forker")
		}
		if err != nil {
			return err
		}
		fmt.Println(pid)
	}
	time.Sleep(time.Hour)
	return nil
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

// startDaemon starts a sleep command by a process in the role of a forker, which has exited when it returns.
func startDaemon(role string) (pid int, err error) {
	middle := exec.Command(self, os.Args[1:]...)
	middle.Env = append(os.Environ(), roleVariable+"="+role)
	out, err := middle.Output()
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(out)))
}

// fork starts a sleep command, in a session of its own or in the group of its parents, and exits.
func fork(setsid bool) func() error {
	return func() error {
		pid, err := startSleeper(setsid)
		if err == nil {
			fmt.Println(pid)
		}
		return err
	}
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
	exited(t, s.tree)
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
	t.Run("an orphan that only the group of the server ties to it", func(t *testing.T) {
		neighbour := start(t, "sleep", "100")
		s := startServer(t)
		s.do("clear")
		s.release()
		s.do("orphan")
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
			guard := guardOf(t, host.Pid)
			require.Eventually(t, func() bool { return s.alive() == 1 }, late, time.Millisecond)
			before := escape.WithToken(token)
			killed := host.Pid
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
			reaches(t, s.tree, 0, 3)
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
