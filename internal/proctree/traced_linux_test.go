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
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/internal/proctree"
)

// tracedVariable holds the PID that a tracer stops, and whether it stops it only after it has started a command.
const tracedVariable = "PROCTREE_TEST_TRACED"

// trace stops the guard as a debugger does until its standard input ends. Nobody but a look at /proc tells the host.
func trace() int {
	runtime.LockOSThread() // a tracer is a thread
	pid, later := 0, false
	if _, err := fmt.Sscan(os.Getenv(tracedVariable), &pid, &later); err != nil {
		return failed(err)
	}
	if err := syscall.PtraceAttach(pid); errors.Is(err, syscall.EPERM) {
		return noNamespace
	} else if err != nil {
		return failed(err)
	}
	if _, err := syscall.Wait4(pid, nil, syscall.WALL, nil); err != nil {
		return failed(err)
	}
	fmt.Println("attached")
	if later {
		if err := awaitCommandOf(pid); err != nil {
			return failed(err)
		}
		fmt.Println("stopped")
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := syscall.PtraceDetach(pid); err != nil {
		return failed(err)
	}
	return 0
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
	cmd := again(t, "tracer", tracedVariable+"="+fmt.Sprint(guard, later))
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	cmd.Stdout = nil
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines = bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "attached" {
		var failed *exec.ExitError
		if err := cmd.Wait(); errors.As(err, &failed) && failed.ExitCode() == noNamespace {
			t.Skip("may not trace another process here: see /proc/sys/kernel/yama/ptrace_scope")
		}
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
	s := escape.Crowd(0).In(t.TempDir())
	t.Cleanup(s.End)
	path, args, env := s.Command()
	_, err := proctree.Start(proctree.Command{Path: path, Args: args, Env: env})
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
func startFromThread() int {
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
		return failed(err)
	}
	time.Sleep(5 * time.Minute)
	return 0
}

// TestThreads checks that a signal reaches what another thread than the first one has started.
func TestThreads(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	c := command(t, self)
	c.Env = append(c.Env, roleVariable+"=other thread")
	tree, err := proctree.Start(c)
	require.NoError(t, err)
	defer endNow(t, tree)
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(allChildrenOf(tree.PID()), func(child int) bool { return hasName(child, "sleep") })
	}, prompt, time.Millisecond)
	require.Empty(t, childrenOf(t, tree.PID()), "of its first thread")
	reached, err := tree.Signal(0)
	require.NoError(t, err)
	assert.Equal(t, 2, reached)
}
