package stall_test

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

// TestSteps checks that a command gets the signals that the host chose, in order, and SIGKILL last.
func TestSteps(t *testing.T) {
	t.Parallel()
	const pause = 300 * time.Millisecond
	quit, usr1 := stall.Step{Signal: syscall.SIGQUIT, Grace: pause}, stall.Step{Signal: syscall.SIGUSR1, Grace: pause}
	kill := stall.Step{Signal: syscall.SIGKILL}
	for _, c := range []struct {
		name      string
		grace     []stall.Step
		steps     string
		requested string
		sent      int // how many of them
	}{
		{"the first one", []stall.Step{{Signal: syscall.SIGQUIT, Grace: longTime}}, "obey:QUIT:3", "SIGQUIT SIGKILL", 1},
		{"the second one", []stall.Step{quit, {Signal: syscall.SIGUSR1, Grace: longTime}}, "ignore:QUIT obey:USR1:3",
			"SIGQUIT SIGUSR1 SIGKILL", 2},
		{"SIGKILL by itself", []stall.Step{quit, usr1}, "ignore:QUIT,USR1", "SIGQUIT SIGUSR1 SIGKILL", 3},
		{"SIGKILL by its name", []stall.Step{quit, kill}, "ignore:QUIT", "SIGQUIT SIGKILL", 2},
		{"SIGKILL at once", []stall.Step{kill}, "obey:QUIT:3", "SIGKILL", 1},
		{"SIGKILL with a time after it, of a host's two settings", []stall.Step{{Signal: syscall.SIGKILL, Grace: longTime}},
			"obey:QUIT:3", "SIGKILL", 1},
		{"one signal twice", []stall.Step{quit, quit}, "ignore:QUIT", "SIGQUIT SIGQUIT SIGKILL", 3},
		{"a signal without a name", []stall.Step{{Signal: 42, Grace: pause}}, "print:x", "signal 42 SIGKILL", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.cfg.Terminal, f.cfg.Grace = readyLine, c.grace
			result, _ := f.stalled(command(t, append(words(c.steps), "print:"+ready, "stay")...))
			require.True(t, result.Terminated)
			require.Equal(t, result.Requested[:c.sent], signals(result))
			require.Equal(t, result.Requested[c.sent-1], result.EndedBy)
			for i, sent := range result.Sent[1:] {
				require.GreaterOrEqual(t, sent.At.Sub(result.Sent[i].At), pause)
			}
			r := f.record()
			require.Equal(t, c.requested, strings.Join(r.Action.Requested, " "))
			require.Equal(t, r.Action.Requested[c.sent-1], r.Action.EndedBy)
		})
	}
}

// TestStepsOfContext checks that the steps are also those after the end of the context, and that a host that changes
// them after NewCommand changes nothing.
func TestStepsOfContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := command(t, "obey:QUIT:3", "print:"+ready, "stay")
	cmd.Stdout = &onFirstWrite{cancel}
	grace := []stall.Step{{Signal: syscall.SIGQUIT, Grace: longTime}}
	c, err := stall.NewCommand(cmd, stall.Config{Step: "step", Store: &watchdog.Memory{}, Grace: grace})
	require.NoError(t, err)
	grace[0] = stall.Step{Signal: syscall.SIGSTOP}
	require.NoError(t, c.Start(ctx))
	result, err := c.Wait()
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, syscall.SIGQUIT, result.EndedBy)
	require.Equal(t, 3, result.ExitCode)
}
