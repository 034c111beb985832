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

// patience bounds every wait in these tests; an idle machine needs milliseconds.
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
		f := newFixture(t, "obey")
		require.NoError(t, f.endWhen(1), "the command succeeded")
		assertGone(t, f.processes())
	})
	for _, family := range []string{"family", "scattered family"} {
		t.Run("a command that ignores it is killed with its "+family, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, family)
			var failed *phase.Failure
			require.ErrorAs(t, f.endWhen(2), &failed)
			assert.Equal(t, "phase step: "+f.phase.String()+": signal: killed", failed.Error())
			assertGone(t, f.processes())
		})
	}
	for command, what := range map[string]string{
		"leave":          "a background process",
		"leave a daemon": "a background process in a session of its own",
	} {
		t.Run(what+" has ended when the phase returns", func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, command)
			require.NoError(t, f.run(t.Context()))
			assertGone(t, f.processes())
		})
	}
	t.Run("the command of Hang is killed", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, "")
		f.runner.Hang = "step"
		require.Error(t, f.endWhen(1))
		assertGone(t, f.processes())
	})
}

// endWhen runs the phase and ends its context once the log names n processes.
func (f *fixture) endWhen(n int) error {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- f.run(ctx) }()
	require.Eventually(f.t, func() bool {
		text, _ := os.ReadFile(f.runner.Log("step")) // it may not be there yet
		return strings.Count(string(text), "process") == n
	}, patience, 5*time.Millisecond)
	cancel()
	return <-ended
}

// processes returns the process IDs in the log.
func (f *fixture) processes() []int {
	f.t.Helper()
	var all []int
	for line := range strings.Lines(f.log()) {
		var pid int
		_, err := fmt.Sscanf(line, "process %d", &pid)
		require.NoError(f.t, err)
		all = append(all, pid)
	}
	require.NotEmpty(f.t, all)
	return all
}

// assertGone asserts that none of the processes runs. It waits for a killed one to be reaped.
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
