//go:build !linux

package main_test

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// assertGone waits until a process that is not a child of this one has ended.
func assertGone(t *testing.T, pid int) {
	t.Helper()
	process, err := os.FindProcess(pid)
	if err != nil {
		return
	}
	require.Eventually(t, func() bool { return process.Signal(syscall.Signal(0)) != nil }, patience, 10*time.Millisecond)
}
