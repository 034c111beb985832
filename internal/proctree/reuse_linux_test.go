//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/internal/racing"
)

// TestReusedPIDs checks that no signal leaves its tree. It runs in a PID namespace with a few hundred PIDs, which are
// reused again and again while trees get signals.
func TestReusedPIDs(t *testing.T) {
	t.Parallel()
	cmd := again(t, "namespace", "PROCTREE_TEST_FOLDER="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	err := cmd.Run()
	var failed *exec.ExitError
	if errors.As(err, &failed) && failed.ExitCode() == noNamespace || errors.Is(err, syscall.EPERM) {
		t.Skipf("cannot make a namespace with few PIDs here: %v", err)
	}
	require.NoError(t, err)
}

// noNamespace is the exit status if the namespace could not be set up.
const noNamespace = 77

// runNamespace is the first process of a namespace.
func runNamespace() int {
	if err := errors.Join(
		syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
		syscall.Mount("proc", "/proc", "proc", 0, ""),
		os.WriteFile("/proc/sys/kernel/pid_max", []byte("400"), 0), // per namespace since Linux 6.14
	); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return noNamespace
	}
	if err := reuse(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// reuse signals trees whose processes come and go, while canaries, processes outside of them, come and go too.
func reuse() error {
	length, enough := racing.Rounds(500*time.Millisecond, 30*time.Second), racing.Rounds[int64](15, 1000)
	os.Unsetenv(roleVariable)
	var canaries, signals, wraps atomic.Int64
	began := time.Now()
	more := func() bool { // on a busy machine the PIDs take longer to be reused
		took := time.Since(began)
		return took < length || wraps.Load() < enough && took < late
	}
	done := make(chan error)
	const runners, trees = 4, 3
	for range runners {
		go func() { done <- runCanaries(more, &canaries, &wraps) }()
	}
	for range trees {
		go func() { done <- signalTrees(more, &signals) }()
	}
	var err error
	for range runners + trees {
		err = errors.Join(err, <-done)
	}
	fmt.Printf("%d canaries and %d signals; the PIDs wrapped around %d times\n",
		canaries.Load(), signals.Load(), wraps.Load())
	if wraps.Load() < enough {
		err = errors.Join(err, errors.New("the PIDs were not reused"))
	}
	return err
}

// runCanaries runs one canary after the other and returns an error if a signal ended one.
func runCanaries(more func() bool, canaries, wraps *atomic.Int64) error {
	last := 0
	for more() {
		canary := exec.Command("sleep", "0.01")
		if err := canary.Run(); err != nil {
			return fmt.Errorf("a process outside of all trees: %w", err)
		}
		if canary.Process.Pid < last {
			wraps.Add(1)
		}
		last = canary.Process.Pid
		canaries.Add(1)
	}
	return nil
}

func signalTrees(more func() bool, signals *atomic.Int64) error {
	for more() {
		tree, _, err := beginIn(escape.Churn())
		if err != nil {
			return err
		}
		for range 300 {
			if _, err := tree.Signal(syscall.SIGTERM); err != nil {
				return err
			}
			signals.Add(1)
		}
		if err := tree.Kill(); err != nil {
			return err
		}
		<-tree.Gone()
	}
	return nil
}
