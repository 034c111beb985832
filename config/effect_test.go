package config_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/config"
)

type variables map[string]string

// TestContradictionsTogether expects all contradictions of a file and the environment in one error.
func TestContradictionsTogether(t *testing.T) {
	text := strings.Join([]string{
		"runtime_controls:",
		"  ladders:",
		"    no_progress: [retry]",
		"  tick_grace_seconds: 1801",
		"  session_wall_clock_seconds: 0",
		"  reserve_seconds: 60",
	}, "\n")
	_, err := config.Parse(file, []byte(text), environment(variables{"WATCHDOG_FROM_FIRST_SIGN": "true"}))
	golden(t, "rejected_contradictions_together.golden", err.Error()+"\n")
	var lines []int
	for _, fault := range faults(t, err) {
		lines = append(lines, fault.Line)
	}
	require.Equal(t, []int{3, 4, 6, 0}, lines, "first the lines of the file in order, then the variables")
}

// tuned has every setting that can be without effect.
const tuned = `runtime_controls:
  session_wall_clock_seconds: 3600
  warn_at: [0.5]
  reserve_seconds: 60
  idle_timeout_seconds: 120
  no_progress_timeout_seconds: 600
  from_first_sign: true
  first_sign_timeout_seconds: 300
  ladders: {idle: [retry], no_progress: [unstuck], call_input: [retry]}
  spend: {cost: 5 EUR, call_input: 100, reserve: {cost: 1 EUR}, warn_at: [0.5]}
  loop: {mode: strict, classes: {deploy: change}, waits: ask, volatile: [at]}
`

func TestVariableDisablesFile(t *testing.T) {
	load := func(t *testing.T, by variables) []string {
		c, err := config.Parse(file, []byte(tuned), environment(by))
		require.NoError(t, err)
		require.NoError(t, c.Budget.Validate())
		return strings.Split(set(c), "\n")
	}
	var all strings.Builder
	without := load(t, nil)
	for _, test := range []struct {
		sentence  string
		variables variables
	}{
		{"a wall clock that is off disables its warnings and reserve", variables{wallClockVariable: "0"}},
		{"a cost that is off disables its reserve", variables{costVariable: "0"}},
		{
			"counts that are off disable their warnings and ladders",
			variables{costVariable: "0", "WATCHDOG_SPEND_CALL_INPUT": "0"},
		},
		{"loops that are off disable what tunes them", variables{"WATCHDOG_LOOP_MODE": "off"}},
		{"a limit that is off disables its ladder", variables{noProgressVariable: "0"}},
		{
			"an idle limit that is off leaves its ladder to the first sign and to holds",
			variables{idleVariable: "0"},
		},
		{"two limits that are off disable the first sign", variables{idleVariable: "0", noProgressVariable: "0"}},
		{"a flag that is off disables its limit", variables{"WATCHDOG_FROM_FIRST_SIGN": "false"}},
		{"a shorter wall clock keeps the longer limits", variables{wallClockVariable: "90"}},
		{
			"a shorter no progress keeps idle",
			variables{noProgressVariable: "90", "WATCHDOG_LADDERS_NO_PROGRESS": "cancel"},
		},
	} {
		t.Run(test.sentence, func(t *testing.T) {
			changed := slices.DeleteFunc(load(t, test.variables), func(line string) bool {
				return slices.Contains(without, line)
			})
			fmt.Fprintf(&all, "%s:\n\t%s\n", test.sentence, strings.Join(changed, "\n\t"))
		})
	}
	golden(t, "disabled.golden", all.String())
}

// TestUnreachable checks the rule that says which of two limits a run can exceed, with a watchdog under both: the limit
// that is a moment shorter ends the run, and of two equal limits the refused one never does.
func TestUnreachable(t *testing.T) {
	const length = time.Minute
	for name, inner := range map[string]struct {
		set    func(*watchdog.Budget, time.Duration)
		reason watchdog.StopReason
		outers []string
	}{
		"idle": {
			func(b *watchdog.Budget, d time.Duration) { b.Idle = d }, watchdog.IdleExceeded,
			[]string{"wall clock", "safety", "no progress"},
		},
		"no progress": {
			func(b *watchdog.Budget, d time.Duration) { b.NoProgress = d }, watchdog.NoProgressExceeded,
			[]string{"wall clock", "safety"},
		},
		"hold": {
			func(b *watchdog.Budget, d time.Duration) { b.Hold = d }, watchdog.HoldExceeded, []string{"wall clock", "safety"},
		},
		"the first sign": {
			func(b *watchdog.Budget, d time.Duration) { b.Idle, b.FromFirstSign, b.FirstSign = 2*length, true, d },
			watchdog.IdleExceeded, []string{"wall clock", "safety"},
		},
	} {
		for _, outer := range inner.outers {
			t.Run(name+" against "+outer, func(t *testing.T) {
				budget := map[string]watchdog.Budget{
					"wall clock":  {WallClock: length},
					"safety":      {WallClock: watchdog.NoLimit, Safety: length},
					"no progress": {WallClock: watchdog.NoLimit, NoProgress: length},
				}[outer]
				inner.set(&budget, length-time.Microsecond)
				require.Equal(t, inner.reason, endOf(t, budget, name == "hold", length))
				inner.set(&budget, length)
				require.NotEqual(t, inner.reason, endOf(t, budget, name == "hold", length))
			})
		}
	}
}

// endOf returns why a silent run ends when it is polled this long after its start.
func endOf(t *testing.T, budget watchdog.Budget, held bool, after time.Duration) watchdog.StopReason {
	t.Helper()
	machine := clock.NewMock()
	wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: machine.Now()}, watchdog.Config{
		Store: &watchdog.Memory{}, Budget: budget, Clock: machine, PollOnly: true, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	defer wd.Close()
	if held {
		_, err := wd.Hold(t.Context(), "tool", watchdog.HoldLimit{})
		require.NoError(t, err)
	}
	machine.Add(after + time.Nanosecond)
	reason, fired := wd.Fired()
	require.True(t, fired)
	return reason
}
