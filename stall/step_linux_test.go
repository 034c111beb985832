package stall_test

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
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
		{"the default, whose first is obeyed", graces(longTime, pause), "obey:INT:3", "SIGINT SIGTERM SIGKILL", 1},
		{"the default, whose second is obeyed", graces(pause, longTime), "ignore:INT obey:TERM:3",
			"SIGINT SIGTERM SIGKILL", 2},
		{"the default with no time", graces(0, 0), "ignore:INT,TERM", "SIGINT SIGTERM SIGKILL", 3},
		{"without SIGINT", []stall.Step{{Signal: syscall.SIGTERM, Grace: pause}}, "obey:INT:3 ignore:TERM",
			"SIGTERM SIGKILL", 2},
		{"a signal without a name", []stall.Step{{Signal: 42, Grace: pause}}, "print:x", "signal 42 SIGKILL", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.cfg.Terminal, f.cfg.Grace = readyLine, c.grace
			told := make(chan stall.Escalation, 10)
			f.cfg.OnSignal = func(e stall.Escalation) { told <- e }
			result, _ := f.stalled(command(t, append(words(c.steps), "print:"+ready, "stay")...))
			require.True(t, result.Terminated)
			require.Equal(t, result.Requested[:c.sent], signals(result))
			require.Equal(t, result.Requested[c.sent-1], result.EndedBy)
			code := -1
			if strings.Contains(c.steps, "obey") && result.EndedBy != syscall.SIGKILL {
				code = 3
			}
			require.Equal(t, code, result.ExitCode)
			for i, sent := range result.Sent[1:] {
				require.GreaterOrEqual(t, sent.At.Sub(result.Sent[i].At), c.grace[i].Grace)
			}
			for i, sent := range result.Sent {
				e, next := <-told, syscall.Signal(0)
				if i+1 < len(result.Requested) {
					next = result.Requested[i+1]
					require.GreaterOrEqual(t, e.NextAt.Sub(sent.At), c.grace[i].Grace)
				}
				require.Equal(t, stall.Escalation{Sent: sent, Next: next, NextAt: e.NextAt}, e)
			}
			r := f.record()
			require.Equal(t, c.requested, strings.Join(r.Action.Requested, " "))
			require.Equal(t, r.Action.Requested[c.sent-1], r.Action.EndedBy)
		})
	}
}

// TestOnSignal checks that a host that is told of a signal delays none, whatever it does, and is then told no more of
// them if it hangs.
func TestOnSignal(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	for name, c := range map[string]struct {
		does  func()
		calls int32
	}{
		"hangs": {func() { <-end }, 1}, "panics": {func() { panic("host") }, 3}, "ends": {runtime.Goexit, 3},
	} {
		t.Run("and "+name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			var calls atomic.Int32
			last := make(chan struct{})
			f.cfg.Terminal, f.cfg.Grace = readyLine, graces(time.Millisecond, time.Millisecond)
			f.cfg.RecordTimeout = longTime
			f.cfg.OnSignal = func(stall.Escalation) {
				if calls.Add(1) == c.calls {
					close(last)
				}
				c.does()
			}
			began := time.Now()
			result, _ := f.stalled(command(t, "ignore:INT,TERM", "print:"+ready, "stay"))
			require.Len(t, result.Sent, 3)
			require.Less(t, time.Since(began), longTime)
			<-last
			require.Equal(t, c.calls, calls.Load())
		})
	}
}

// TestOnSignalThatHangs has a host hang for longer than its RecordTimeout.
func TestOnSignalThatHangs(t *testing.T) {
	t.Parallel()
	for takes, calls := range map[time.Duration]int32{time.Second - 1: 3, time.Second + 1: 1} {
		synctest.Test(t, func(t *testing.T) {
			var called atomic.Int32
			stall.TellEscalation(stall.Config{RecordTimeout: time.Second, OnSignal: func(stall.Escalation) {
				called.Add(1)
				time.Sleep(takes)
			}}, make([]stall.Escalation, 3)...)
			time.Sleep(time.Minute)
			require.Equal(t, calls, called.Load(), takes)
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
