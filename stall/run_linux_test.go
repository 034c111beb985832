package stall_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

var readyLine = []*regexp.Regexp{regexp.MustCompile("^" + ready + "$")}

// A provocation makes one of the three signals of a command that printed that it is ready.
type provocation struct {
	kind    stall.TripKind
	code    watchdog.StopReason
	reason  string // of the event
	prepare func(*stall.Config)
}

func provocations(t *testing.T) []provocation {
	probe := []string{self(t), actor, "print:{}"}
	return []provocation{
		{stall.KindNoOutput, watchdog.CommandNoOutput, "no_output", func(c *stall.Config) { c.NoOutput = time.Second }},
		{stall.KindNoProgress, watchdog.CommandNoProgress, "no_progress", func(c *stall.Config) {
			c.Probe = &stall.Probe{Command: probe, Interval: 300 * time.Millisecond, Timeout: patient}
		}},
		{stall.KindTerminal, watchdog.CommandTerminal, "terminal", func(c *stall.Config) { c.Terminal = readyLine }},
	}
}

func TestEverySignalAndEveryAction(t *testing.T) {
	t.Parallel()
	for _, p := range provocations(t) {
		for _, action := range []stall.TripAction{stall.ActionInterrupt, stall.ActionFail, stall.ActionIgnore} {
			t.Run(string(p.kind)+" and "+string(action), func(t *testing.T) {
				t.Parallel()
				b := newBed(t)
				b.cfg.OnStall, b.cfg.OnTerminal = action, action
				p.prepare(&b.cfg)
				if action == stall.ActionIgnore {
					ignored(b, p)
				} else {
					acted(b, p, action)
				}
			})
		}
	}
}

func acted(b *bed, p provocation, action stall.TripAction) {
	result, err := b.stalled(play(b, "print:"+ready, "stay"))
	require.ErrorIs(b, err, p.code)
	require.Equal(b, p.code, err.Stop.Code)
	require.Equal(b, "run/step", err.Stop.RunID)
	require.Equal(b, "run", err.Stop.Parent)
	require.Equal(b, p.kind, result.Trip.Kind)
	require.Equal(b, action, result.Trip.Action)
	require.Equal(b, []payload{{p.reason, "run"}}, b.events(watchdog.EventCancel), "exactly one, with its parent")
	ended := map[stall.TripAction]syscall.Signal{stall.ActionInterrupt: syscall.SIGINT, stall.ActionFail: syscall.SIGKILL}[action]
	require.Equal(b, ended, result.EndedBy)
	require.Equal(b, ended, result.Signal)
	require.Equal(b, -1, result.ExitCode)
	require.Equal(b, []syscall.Signal{ended}, signals(result))
	require.True(b, result.Terminated)
	require.Positive(b, result.MaxRSS)
	r := b.record()
	require.Equal(b, string(p.kind), r.Trigger.Kind)
	require.Equal(b, err.Stop.EventID(), r.EventID)
	require.True(b, r.Complete)
	require.True(b, r.Action.Terminated)
	require.Nil(b, r.Action.ExitCode)
}

// ignored runs a command that trips, goes on when it was seen to have tripped, and ends by itself.
func ignored(b *bed, p provocation) {
	event := filepath.Join(b.cfg.Artifacts, "step", "_stall", "event.json")
	result, err := b.run(play(b, "print:"+ready, "await:"+event, "exit:4"))
	var exit *stall.ExitError
	require.ErrorAs(b, err, &exit)
	require.Equal(b, 4, exit.Code)
	require.True(b, result.Finished)
	require.Empty(b, result.Sent)
	require.Equal(b, p.kind, result.Trip.Kind)
	require.Equal(b, stall.ActionIgnore, result.Trip.Action)
	require.Empty(b, b.events(watchdog.EventCancel))
	require.Len(b, b.events(watchdog.EventWarning), 1)
	r := b.record()
	require.Equal(b, "ignore", r.Action.Kind)
	require.Empty(b, r.Action.Requested)
	require.True(b, r.Complete)
	require.Equal(b, 4, *r.Action.ExitCode)
	require.Empty(b, r.EventID)
}

func TestGraces(t *testing.T) {
	t.Parallel()
	all := []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL}
	for _, c := range []struct {
		name    string
		steps   []string
		ended   int // which signal it takes
		atLeast time.Duration
		code    int
		signal  syscall.Signal
	}{
		{"a command that obeys SIGINT", words("obey:INT:7"), 0, 0, 7, 0},
		{"a command that ignores SIGINT", words("ignore:INT obey:TERM:8"), 1, 400 * time.Millisecond, 8, 0},
		{"a command that ignores both", words("ignore:INT,TERM"), 2, 700 * time.Millisecond, -1, syscall.SIGKILL},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.cfg.Terminal = readyLine
			b.cfg.Grace = stall.Grace{Interrupt: 400 * time.Millisecond, Terminate: 300 * time.Millisecond}
			if c.ended == 0 {
				b.cfg.Grace.Interrupt = patient
			}
			if c.ended == 1 {
				b.cfg.Grace.Terminate = patient
			}
			result, _ := b.stalled(play(t, append(c.steps, "print:"+ready, "stay")...))
			require.Equal(t, all, result.Requested)
			require.Equal(t, all[:c.ended+1], signals(result))
			require.Equal(t, all[c.ended], result.EndedBy)
			require.Equal(t, c.code, result.ExitCode)
			require.Equal(t, c.signal, result.Signal)
			require.True(t, result.Terminated)
			took := result.Trip.ObservedAt.Add(c.atLeast)
			require.False(t, time.Now().Before(took), "the graces were given")
			for i := 1; i < len(result.Sent); i++ {
				require.GreaterOrEqual(t, result.Sent[i].At.Sub(result.Sent[i-1].At), 300*time.Millisecond)
			}
			r := b.record()
			require.Equal(t, words("SIGINT SIGTERM SIGKILL"), r.Action.Requested)
			require.Len(t, r.Action.Sent, c.ended+1)
			require.Equal(t, []string{"SIGINT", "SIGTERM", "SIGKILL"}[c.ended], r.Action.EndedBy)
		})
	}
	t.Run("of no time are none", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.cfg.Terminal, b.cfg.Grace = readyLine, stall.Grace{Interrupt: watchdog.None, Terminate: watchdog.None}
		result, _ := b.stalled(play(t, "ignore:INT,TERM", "print:"+ready, "stay"))
		require.Less(t, result.Sent[len(result.Sent)-1].At.Sub(result.Trip.ObservedAt), late)
		require.Equal(t, syscall.SIGKILL, result.EndedBy)
	})
}

func TestASignalReachesTheChildrenToo(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.cfg.NoOutput = time.Second
	cmd := play(t, "print:"+ready, "child:print:"+ready+";stay", "stay")
	result, _ := b.stalled(cmd)
	require.Equal(t, 2, result.Sent[0].Processes)
}

// A store that ends the command when the cancel is to be recorded: after the trip, before the first signal.
type endsCommand struct {
	watchdog.EventStore
	end func()
}

func (s *endsCommand) Append(ctx context.Context, events ...watchdog.Event) error {
	s.end()
	return s.EventStore.Append(ctx, events...)
}

func TestACommandThatEndsBeforeTheFirstSignalIsFinished(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		code string
	}{{"with success", "0"}, {"with a failure", "5"}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			end := filepath.Join(t.TempDir(), "end")
			cmd := play(t, "print:"+ready, "await:"+end, "exit:"+c.code)
			b.cfg.Terminal = readyLine
			b.cfg.Store = &endsCommand{b.store, func() {
				_ = exec.Command("touch", end).Run()
				eventually(t, "the command ends", func() bool { return len(holding(tokenOf(cmd))) == 0 })
				time.Sleep(100 * time.Millisecond) // it was reaped, and its guard tells so
			}}
			result, err := b.run(cmd)
			require.True(t, result.Finished)
			require.Empty(t, result.Sent)
			require.False(t, result.Terminated)
			require.Zero(t, result.EndedBy)
			require.Len(t, result.Requested, 3, "what was asked for stands apart from what was done")
			require.Equal(t, c.code != "0", err != nil)
			var stalled *stall.Stalled
			require.NotErrorAs(t, err, &stalled)
			r := b.record()
			require.True(t, r.Complete)
			require.Empty(t, r.Action.Sent)
			require.False(t, r.Action.Terminated)
			require.Equal(t, c.code == "5", *r.Action.ExitCode == 5)
		})
	}
}

func TestHowACommandEndedByItself(t *testing.T) {
	t.Parallel()
	t.Run("with success", func(t *testing.T) {
		b := newBed(t)
		result, err := b.run(play(t))
		require.NoError(t, err)
		require.True(t, result.Finished)
		require.Zero(t, result.ExitCode)
		require.Nil(t, result.Trip)
		require.Empty(t, result.Requested)
		require.Empty(t, result.Artifacts)
		require.Empty(t, b.artifacts(), "no trip, no artifacts")
		require.Positive(t, result.Elapsed)
		require.Equal(t, "run/step", result.RunID)
		require.Empty(t, b.events(watchdog.EventCancel))
	})
	t.Run("with a status", func(t *testing.T) {
		_, err := newBed(t).run(play(t, "exit:3"))
		require.EqualError(t, err, "run step step: the command failed: exit status 3")
		var exit *stall.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, stall.ExitError{Code: 3}, *exit)
	})
	t.Run("by a signal", func(t *testing.T) {
		result, err := newBed(t).run(play(t, "kill:KILL"))
		require.EqualError(t, err, "run step step: the command was ended by a signal: killed")
		require.Equal(t, -1, result.ExitCode)
		require.Equal(t, syscall.SIGKILL, result.Signal)
	})
	t.Run("in its folder, with its environment", func(t *testing.T) {
		cmd := play(t, "pwd", "env:COLOUR")
		cmd.Dir = t.TempDir()
		cmd.Env = append([]string{"COLOUR=green"}, cmd.Env...)
		var out strings.Builder
		cmd.Stdout = &out
		_, err := newBed(t).run(cmd)
		require.NoError(t, err)
		require.Equal(t, cmd.Dir+"\ngreen\n", out.String())
	})
}

func TestSixteenRunsAtOnce(t *testing.T) {
	b := newBed(t)
	var all sync.WaitGroup
	for n := range 16 {
		cfg := b.cfg
		cfg.Step = "step" + string(rune('a'+n))
		if n%2 == 1 {
			cfg.Terminal = readyLine
		}
		cmd := play(t, "print:"+ready, "sleep:20ms")
		if n%2 == 1 {
			cmd = play(t, "print:"+ready, "stay")
		}
		all.Go(func() {
			result, err := stall.Run(t.Context(), cmd, cfg)
			assert.Equal(t, n%2 == 1, err != nil, "%v", err)
			assert.Equal(t, n%2 == 0, result.Finished)
			assert.Equal(t, n%2 == 1, result.Terminated)
			assert.Equal(t, "run/"+cfg.Step, result.RunID)
		})
	}
	all.Wait()
}

func TestWhatACommandLeftBehind(t *testing.T) {
	t.Parallel()
	t.Run("is ended", func(t *testing.T) {
		b := newBed(t)
		result, err := b.run(play(t, "daemon:print:"+ready+";stay"))
		require.NoError(t, err)
		require.Equal(t, 1, result.LeftBehind)
		require.True(t, result.Finished)
		require.Empty(t, result.Sent)
	})
	t.Run("is ended in time though it ignores SIGTERM and holds the output", func(t *testing.T) {
		b := newBed(t)
		cmd := play(t, "daemon:ignore:TERM,INT;print:"+ready+";stay")
		cmd.Stdout = new(strings.Builder)
		began := time.Now()
		result, err := b.run(cmd)
		require.NoError(t, err)
		require.Equal(t, 1, result.LeftBehind)
		within(t, time.Second+late, began)
	})
	t.Run("stays where it is meant to", func(t *testing.T) {
		b := newBed(t)
		b.cfg.KeepBackground = true
		kept := filepath.Join(t.TempDir(), "kept")
		cmd := play(t, "daemon:print:"+ready+";keep:"+kept)
		result, err := b.run(cmd)
		require.NoError(t, err)
		require.Zero(t, result.LeftBehind)
		left := holding(tokenOf(cmd))
		require.Len(t, left, 1)
		eventually(t, "it works on", func() bool { return exists(kept) })
		require.NoError(t, syscall.Kill(left[0], syscall.SIGKILL))
		eventually(t, "it ends", func() bool { return len(holding(tokenOf(cmd))) == 0 })
	})
	t.Run("does not stay after a trip", func(t *testing.T) {
		b := newBed(t)
		b.cfg.KeepBackground, b.cfg.Terminal = true, readyLine
		result, _ := b.stalled(play(t, "daemon:print:"+ready+";stay", "print:"+ready, "stay"))
		require.Equal(t, 2, result.Sent[0].Processes)
	})
}
