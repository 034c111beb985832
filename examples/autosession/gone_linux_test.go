package main_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// assertGone waits until a process that is not a child of this one has ended.
func assertGone(t *testing.T, pid int) {
	t.Helper()
	handle, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	require.NoError(t, err)
	defer unix.Close(handle)
	ready := 0
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		ready, err = unix.Poll([]unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}, int(patience.Milliseconds()))
	}
	require.NoError(t, err)
	assert.Equalf(t, 1, ready, "process %d is alive", pid)
}
