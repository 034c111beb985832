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

// contradictions are settings that are valid alone and not together. The text stands in the block, from line 2.
var contradictions = []row{
	{"a reserve as long as the wall clock", "session_wall_clock_seconds: 60\n  reserve_seconds: 60"},
	{"a reserve longer than the default wall clock", "reserve_seconds: 14401"},
	{"a reserve longer than the wall clock of a variable", "reserve_seconds: 60", wallClockVariable + "=30"},
	{"a reserve of a limit that is off", "session_wall_clock_seconds: 0\n  reserve_seconds: 60"},
	{"warnings of a limit that is off", "warn_at: [0.5]\n  session_wall_clock_seconds: 0"},
	{"warnings of a variable for a limit that is off", "session_wall_clock_seconds: 0", "WATCHDOG_WARN_AT=0.5"},
	{"variables that contradict each other", "", wallClockVariable + "=0", "WATCHDOG_WARN_AT=0.5"},

	{"a ladder of a limit that is off", "ladders:\n    no_progress: [retry]"},
	{"a ladder of only a cancel for a limit that is off", "ladders:\n    no_progress: [cancel]"},
	{"a ladder of a limit that is switched off", "no_progress_timeout_seconds: 0\n  ladders: {no_progress: [retry]}"},
	{"a ladder of a variable for a limit that is off", "no_progress_timeout_seconds: 0",
		"WATCHDOG_LADDERS_NO_PROGRESS=retry"},
	{"a first sign without a limit that begins with it", "hold_timeout_seconds: 60\n  from_first_sign: true"},
	{"a limit of the first sign where nothing begins with it",
		"idle_timeout_seconds: 60\n  first_sign_timeout_seconds: 60"},
	{"a limit of the first sign where it is said that nothing begins with it",
		"idle_timeout_seconds: 60\n  from_first_sign: false\n  first_sign_timeout_seconds: 60"},

	{"idle as long as the default wall clock", "idle_timeout_seconds: 14400"},
	{"idle as long as the wall clock", "idle_timeout_seconds: 60\n  session_wall_clock_seconds: 60"},
	{"idle of a variable longer than the wall clock", "session_wall_clock_seconds: 60", idleVariable + "=61"},
	{"idle as long as safety", "safety_timeout_seconds: 60\n  idle_timeout_seconds: 60"},
	{"idle as long as no progress", "no_progress_timeout_seconds: 60\n  idle_timeout_seconds: 60"},
	{"idle as long as no progress, which is said to cancel",
		"no_progress_timeout_seconds: 60\n  idle_timeout_seconds: 60\n  ladders: {no_progress: [cancel]}"},
	{"no progress as long as the wall clock", "session_wall_clock_seconds: 60\n  no_progress_timeout_seconds: 60"},
	{"no progress with a ladder as long as the wall clock",
		"session_wall_clock_seconds: 60\n  no_progress_timeout_seconds: 60\n  ladders: {no_progress: [retry]}"},
	{"no progress as long as safety", "safety_timeout_seconds: 60\n  no_progress_timeout_seconds: 60"},
	{"the cap of holds as long as the wall clock", "hold_timeout_seconds: 14400"},
	{"the cap of holds as long as safety",
		"session_wall_clock_seconds: 0\n  safety_timeout_seconds: 60\n  hold_timeout_seconds: 60"},
	{"the first sign as late as the wall clock",
		"idle_timeout_seconds: 60\n  from_first_sign: true\n  first_sign_timeout_seconds: 14400"},
	{"the first sign as late as safety",
		"idle_timeout_seconds: 60\n  from_first_sign: true\n  first_sign_timeout_seconds: 90\n  safety_timeout_seconds: 90"},

	{"a reserve of a count that is off", "spend: {reserve: {tokens: 5}}"},
	{"a reserve of a cost that is switched off", "spend:\n    cost: 0\n    reserve:\n      cost: 1 EUR"},
	{"a reserve of another currency", "spend:\n    cost: 5 EUR\n    reserve:\n      cost: 1 USD"},
	{"a reserve of another currency than that of a variable", "spend:\n    cost: 5 EUR\n    reserve:\n      cost: 1 EUR",
		costVariable + "=5 USD"},
	{"a reserve as large as its count", "spend: {turns: 5, reserve: {turns: 5}}"},
	{"warnings of counts without one", "spend: {warn_at: [0.5]}"},
	{"warnings of counts that are off", "spend: {tokens: 0, tools: {bash: 0}, warn_at: [0.5]}"},
	{"a ladder of the input of a call without that limit", "ladders: {call_input: [retry]}"},
	{"a ladder of errors without that limit", "ladders: {errors: [unstuck]}\n  spend: {tokens: 5}"},
	{"a scope without a limit", "scopes:\n  - {scope: a, spend: {tokens: 0}}"},
	{"a scope without a name", "scopes:\n  - {spend: {tokens: 5}}"},
	{"a scope twice", "scopes:\n  - {scope: a, spend: {tokens: 5}}\n  - {scope: a, spend: {tokens: 5}}"},
	{"a scope with a limit of one run", "scopes:\n  - {scope: a, spend: {tokens: 5, errors: 5}}"},
	{"a scope with a zone and no period", "scopes:\n  - {scope: a, zone: UTC, spend: {tokens: 5}}"},
	{"a scope with a reserve of a limit that is off", "scopes:\n  - {scope: a, spend: {tokens: 5, reserve: {turns: 1}}}"},
	{"a scope whose reserve leaves nothing", "scopes:\n  - {scope: a, spend: {tokens: 5, reserve: {tokens: 5}}}"},
	{"a scope of another currency than the run", "spend: {cost: 5 EUR}\n  scopes:\n  - {scope: a, spend: {cost: 5 USD}}"},
	{
		"two scopes of two currencies", "scopes:\n  - {scope: a, spend: {cost: 5 EUR}}\n  - {scope: b, spend: {cost: 5 USD}}",
	},
	{"a scope with a name too long for that of a tool",
		"scopes:\n  - {scope: " + strings.Repeat("a", 250) + ", spend: {tools: {bash: 5}}}"},

	{"classes where no loop is found", "loop: {mode: off, classes: {deploy: change}}"},
	{"waits where no loop is found", "loop: {mode: off, waits: end}"},
	{"volatile fields where no loop is found", "loop: {volatile: [a], mode: off}"},
	{"a ladder of loops that are never found", "ladders: {loop: [wait]}\n  loop: {mode: off}"},

	{"a grace longer than its tick", "max_tick_duration_minutes: 1\n  tick_grace_seconds: 61"},
	{"a grace longer than the default tick", "tick_grace_seconds: 1801"},
	{"a grace longer than the tick of a variable", "tick_grace_seconds: 61", "WATCHDOG_MAX_TICK_DURATION_MINUTES=1"},
	{"a grace of a variable longer than its tick", "max_tick_duration_minutes: 1", "WATCHDOG_TICK_GRACE_SECONDS=61"},
}

// stallContradictions are the same for a stall block.
var stallContradictions = []row{
	{"an output that counts for no limit", "activity_source: stdout\n  terminal_patterns: [x]"},
	{"an output that counts for a limit that is switched off", "no_output_timeout: 0\n  activity_source: stdout"},
	{"an interval without a command", "no_output_timeout: 5m\n  probe: {interval: 10s}"},
	{"a timeout without a command", "no_output_timeout: 5m\n  probe: {timeout: 10s}"},
	{"an exit status without a command", "no_output_timeout: 5m\n  probe: {require_zero_exit: false}"},
	{"an exit status that is the default without a command", "no_output_timeout: 5m\n  probe: {require_zero_exit: true}"},
	{"errors without a command", "no_output_timeout: 5m\n  probe: {on_probe_error: stall}"},
	{"a threshold of errors without a command", "no_output_timeout: 5m\n  probe: {probe_error_threshold: 2}"},
	{"a threshold of errors that mean nothing", "probe:\n    command: [x]\n    probe_error_threshold: 2"},
	{"a threshold of errors that are said to mean nothing",
		"probe:\n    command: [x]\n    on_probe_error: ignore\n    probe_error_threshold: 2"},
	{"a threshold without a probe", "no_output_timeout: 5m\n  stall_threshold: 3"},
	{"an action for a stall that nothing sees", "on_stall: interrupt\n  terminal_patterns: [x]"},
	{"an action for a terminal state that nothing sees", "on_terminal: fail\n  no_output_timeout: 5m"},
	{"an action for patterns that are none", "no_output_timeout: 5m\n  terminal_patterns: []\n  on_terminal: fail"},
	{"a grace without a signal", "interrupt_grace: 5s"},
	{"no grace without a signal", "terminate_grace: 0"},
	{"an end elsewhere without a signal", "also_end: {command: [x]}"},
	{"a timeout of an end elsewhere without a command", "no_output_timeout: 5m\n  also_end: {timeout: 5s}"},
	{"a first signal without one that trips", "first_signal: SIGTERM"},
	{"a grace after no SIGINT", "no_output_timeout: 5m\n  interrupt_grace: 5s\n  first_signal: SIGTERM"},
	{"a grace of SIGTERM after SIGKILL", "no_output_timeout: 5m\n  terminate_grace: 5s\n  first_signal: KILL"},
	{"background processes without a signal", "keep_background: true"},
	{"background processes with a signal that is switched off", "no_output_timeout: 0\n  keep_background: true"},
	{"a prefix without a signal", "fingerprint_prefix: ci"},
	{"a variable without a signal", "", "WATCHDOG_STALL_ON_STALL=fail"},
	{"an interval of a variable without a command", "no_output_timeout: 5m", "WATCHDOG_STALL_PROBE_INTERVAL=5s"},
	{"variables that contradict each other", "", noOutputVariable + "=0", "WATCHDOG_STALL_ACTIVITY_SOURCE=stderr"},
}

// keeperContradictions are the same for a sweep block.
var keeperContradictions = []row{
	{"a pace of more than a quarter of the sweeper's threshold", "stalled_threshold: 2m\n  keeper: {pace: 31s}"},
	{"a pace of more than a quarter of the default threshold", "keeper: {pace: 2m31s}"},
	{"a pace of more than a quarter of the threshold of a variable", "keeper: {pace: 16s}",
		"WATCHDOG_STALLED_THRESHOLD_MS=60000"},
	{"a pace of a variable", "stalled_threshold: 1m", "WATCHDOG_KEEPER_PACE_MS=15001"},
	{"a threshold of the keeper's own, which is gone", "keeper: {threshold: 3s}"},
	{"a pace of more than a quarter of the default, while the sweeper's is off",
		"stalled_threshold: 0\n  keeper: {pace: 3m}"},
	{"a number of cancels without a time to count them in", "alert_count: 5"},
	{"a number of cancels whose alert is switched off", "alert_within: 0\n  alert_count: 5"},
}

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
	compare(t, "rejected_contradictions_together.golden", err.Error()+"\n")
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
		c := parse(t, tuned, by)
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
	compare(t, "disabled.golden", all.String())
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
