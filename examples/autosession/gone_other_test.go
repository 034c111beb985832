//go:build !linux

package main_test

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// assertGone asserts that a process, which this one did not start, has ended or does so now.
func assertGone(t *testing.T, pid int) {
	t.Helper()
	process, err := os.FindProcess(pid)
	if err != nil {
		return
	}
	require.Eventually(t, func() bool { return process.Signal(syscall.Signal(0)) != nil }, patience, 10*time.Millisecond)
}
