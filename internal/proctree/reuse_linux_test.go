//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/internal/proctree"
)

// TestNothingElseIsSignalled runs in a system of its own with a few hundred process numbers, which are all used again and again while trees are signalled.
func TestNothingElseIsSignalled(t *testing.T) {
	cmd := again(t, "namespace", "PROCTREE_TEST_FOLDER="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	err := cmd.Run()
	var failed *exec.ExitError
	if errors.As(err, &failed) && failed.ExitCode() == cannot || errors.Is(err, syscall.EPERM) {
		t.Skipf("no namespace with few process numbers here: %v", err)
	}
	require.NoError(t, err)
}

// cannot is the status of a namespace that could not be made as it has to be.
const cannot = 77

// beNamespace is the first process of a namespace.
func beNamespace() int {
	if err := errors.Join(
		syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
		syscall.Mount("proc", "/proc", "proc", 0, ""),
		os.WriteFile("/proc/sys/kernel/pid_max", []byte("400"), 0), // of the namespace alone since Linux 6.14
	); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return cannot
	}
	if err := reuse(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// reuse signals trees whose processes come and go, beside canaries that do so too.
func reuse() error {
	length := 3 * time.Second
	if os.Getenv("WATCHDOG_LONG") != "" {
		length = 30 * time.Second
	}
	os.Unsetenv(roleVariable)
	until := time.Now().Add(length)
	var canaries, signals, turns atomic.Int64
	done := make(chan error)
	const birds, trees = 4, 3
	for range birds {
		go func() { done <- sing(until, &canaries, &turns) }()
	}
	for range trees {
		go func() { done <- signalTrees(until, &signals) }()
	}
	var err error
	for range birds + trees {
		err = errors.Join(err, <-done)
	}
	fmt.Printf("%d canaries and %d signals; the process numbers began anew %d times\n", canaries.Load(), signals.Load(), turns.Load())
	if turns.Load() < 2 {
		err = errors.Join(err, errors.New("the process numbers were not used again"))
	}
	return err
}

// sing starts one canary after the other: what a signal ends, it tells.
func sing(until time.Time, canaries, turns *atomic.Int64) error {
	last := 0
	for time.Now().Before(until) {
		bird := exec.Command("sleep", "0.01")
		if err := bird.Run(); err != nil {
			return fmt.Errorf("a process outside of all trees: %w", err)
		}
		if bird.Process.Pid < last {
			turns.Add(1)
		}
		last = bird.Process.Pid
		canaries.Add(1)
	}
	return nil
}

func signalTrees(until time.Time, signals *atomic.Int64) error {
	for time.Now().Before(until) {
		folder := filepath.Join(os.Getenv("PROCTREE_TEST_FOLDER"), fmt.Sprint(time.Now().UnixNano()))
		if err := os.Mkdir(folder, 0o700); err != nil {
			return err
		}
		s := escape.Churn().In(folder)
		path, args, env := s.Command()
		tree, err := proctree.Start(proctree.Command{Path: path, Args: args, Env: env})
		if err != nil {
			return err
		}
		if err := s.Ready(20 * time.Second); err != nil {
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
