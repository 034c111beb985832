package phase_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed62658d38/watchdog/examples/autosession/internal/phase"
)

// patience is how long a test waits for what takes no time on a machine that is not busy.
const patience = time.Minute

func init() {
	session := &unix.SysProcAttr{Setsid: true}
	commands["scattered family"] = func() int { startChild(session); return hang() }
	commands["leave a daemon"] = func() int { startChild(session); return 0 }
}

func TestEnd(t *testing.T) {
	t.Parallel()
	t.Run("a command that obeys the interrupt is not killed", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, "obey")
		require.NoError(t, b.endWhen(1), "it was done all the same")
		assertGone(t, b.processes())
	})
	for _, family := range []string{"family", "scattered family"} {
		t.Run("a command that ignores it is killed with its "+family, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, family)
			var failed *phase.Failure
			require.ErrorAs(t, b.endWhen(2), &failed)
			assert.Equal(t, "phase step: "+b.phase.String()+": signal: killed", failed.Error())
			assertGone(t, b.processes())
		})
	}
	for command, what := range map[string]string{"leave": "what a command leaves behind", "leave a daemon": "what it leaves behind in a session of its own"} {
		t.Run(what+" is gone when the phase is over", func(t *testing.T) {
			t.Parallel()
			b := newBed(t, command)
			require.NoError(t, b.run(t.Context()))
			assertGone(t, b.processes())
		})
	}
	t.Run("the command that hangs on purpose is killed", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, "")
		b.runner.Hang = "step"
		require.Error(t, b.endWhen(1))
		assertGone(t, b.processes())
	})
}

// endWhen runs the phase and ends its context once the log tells of n processes.
func (b *bed) endWhen(n int) error {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- b.run(ctx) }()
	require.Eventually(b.t, func() bool {
		text, _ := os.ReadFile(b.runner.Log("step")) // it may not be there yet
		return strings.Count(string(text), "process") == n
	}, patience, 5*time.Millisecond)
	cancel()
	return <-ended
}

// processes are those that the log tells of.
func (b *bed) processes() []int {
	b.t.Helper()
	var all []int
	for line := range strings.Lines(b.log()) {
		var pid int
		_, err := fmt.Sscanf(line, "process %d", &pid)
		require.NoError(b.t, err)
		all = append(all, pid)
	}
	require.NotEmpty(b.t, all)
	return all
}

// assertGone asserts that none of the processes runs. One that was killed may still be on its way to be reaped.
func assertGone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		handle, err := unix.PidfdOpen(pid, 0)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		require.NoError(t, err)
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}, int(patience.Milliseconds()))
		require.NoError(t, err)
		assert.Equal(t, 1, ready, "process %d is alive", pid)
		require.NoError(t, unix.Close(handle))
	}
}
