//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/proctree"
)

// useAllFiles is a host with few descriptors that starts commands until a guard has no more. It prints what went wrong.
func useAllFiles() int {
	var limit uint64
	var quiet, files int
	if _, err := fmt.Sscan(os.Getenv(limitVariable), &limit, &quiet, &files); err != nil {
		return failed(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
		return failed(err)
	}
	if err := fillGuard(quiet, files); err != nil {
		return failed(err)
	}
	_, err := proctree.Start(sleepWith(int(min(limit-11, 250)))) // at a limit of 256 it fits into no guard
	text, next := guardedOutput("/bin/echo", "A=B")
	fmt.Println(text, err, next)
	return 0
}

// fillGuard starts quiet commands and one with files, and ends them. All must run.
func fillGuard(quiet, files int) error {
	var trees []*proctree.Tree
	for n := range quiet + 1 {
		tree, err := proctree.Start(sleepWith(n / quiet * files))
		if err != nil {
			return fmt.Errorf("command %d: %w", n, err)
		}
		trees = append(trees, tree)
	}
	for _, tree := range trees {
		if !running(tree.PID()) {
			return fmt.Errorf("a command has ended: %w", tree.Err())
		}
	}
	for _, tree := range trees {
		_ = tree.Kill()
		<-tree.Gone()
	}
	return nil
}

func sleepWith(files int) proctree.Command {
	c := proctree.Command{Path: "/bin/sleep", Args: []string{"sleep", "1000"}, Dir: "/"}
	for range files {
		c.Files = append(c.Files, os.Stdin)
	}
	return c
}

// TestNoFreeFiles checks that a guard without free descriptors ends nothing.
func TestNoFreeFiles(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	t.Run("120 commands and one with 60 files, of 256", func(t *testing.T) {
		t.Parallel()
		text := runRole(t, self, "no free files", limitVariable+"=256 120 60")
		assert.Contains(t, text, "it has too few free descriptors for the command")
		assert.Contains(t, text, "<nil>", "the next command starts")
	})
	t.Run("505 commands and one with 40 files, of 1024", func(t *testing.T) {
		t.Parallel()
		text := runRole(t, self, "no free files", limitVariable+"=1024 505 40")
		assert.Equal(t, "<nil> <nil>", text, "a guard that has no more of them leaves the last to another one")
	})
}
