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

const (
	wallClockVariable  = "WATCHDOG_SESSION_WALL_CLOCK_SECONDS"
	idleVariable       = "WATCHDOG_IDLE_TIMEOUT_SECONDS"
	noProgressVariable = "WATCHDOG_NO_PROGRESS_TIMEOUT_SECONDS"
	costVariable       = "WATCHDOG_SPEND_COST"
	toolsVariable      = "WATCHDOG_SPEND_TOOLS"
)

type variables map[string]string

// contradictions are settings that are valid alone and not together. The text stands in the block, from line 2; the
// error has this line, or names the first variable if it is 0.
var contradictions = []struct {
	sentence  string
	text      string
	variables variables
	line      int
}{
	{"a reserve as long as the wall clock", "session_wall_clock_seconds: 60\n  reserve_seconds: 60", nil, 0},
	{"a reserve longer than the default wall clock", "reserve_seconds: 14401", nil, 0},
	{"a reserve longer than the wall clock of a variable", "reserve_seconds: 60", variables{wallClockVariable: "30"}, 0},
	{"a reserve of a limit that is off", "session_wall_clock_seconds: 0\n  reserve_seconds: 60", nil, 3},
	{"warnings of a limit that is off", "warn_at: [0.5]\n  session_wall_clock_seconds: 0", nil, 2},
	{
		"warnings of a variable for a limit that is off", "session_wall_clock_seconds: 0",
		variables{"WATCHDOG_WARN_AT": "0.5"}, 0,
	},
	{"variables that contradict each other", "", variables{wallClockVariable: "0", "WATCHDOG_WARN_AT": "0.5"}, 0},

	{"a ladder of a limit that is off", "ladders:\n    no_progress: [retry]", nil, 3},
	{"a ladder of only a cancel for a limit that is off", "ladders:\n    no_progress: [cancel]", nil, 3},
	{
		"a ladder of a limit that is switched off", "no_progress_timeout_seconds: 0\n  ladders: {no_progress: [retry]}", nil,
		3,
	},
	{
		"a ladder of a variable for a limit that is off", "no_progress_timeout_seconds: 0",
		variables{"WATCHDOG_LADDERS_NO_PROGRESS": "retry"}, 0,
	},
	{"a first sign without a limit that begins with it", "hold_timeout_seconds: 60\n  from_first_sign: true", nil, 3},
	{
		"a limit of the first sign where nothing begins with it",
		"idle_timeout_seconds: 60\n  first_sign_timeout_seconds: 60", nil, 3,
	},
	{
		"a limit of the first sign where it is said that nothing begins with it",
		"idle_timeout_seconds: 60\n  from_first_sign: false\n  first_sign_timeout_seconds: 60", nil, 4,
	},

	{"idle as long as the default wall clock", "idle_timeout_seconds: 14400", nil, 2},
	{"idle as long as the wall clock", "idle_timeout_seconds: 60\n  session_wall_clock_seconds: 60", nil, 2},
	{"idle of a variable longer than the wall clock", "session_wall_clock_seconds: 60", variables{idleVariable: "61"}, 0},
	{"idle as long as safety", "safety_timeout_seconds: 60\n  idle_timeout_seconds: 60", nil, 3},
	{"idle as long as no progress", "no_progress_timeout_seconds: 60\n  idle_timeout_seconds: 60", nil, 3},
	{
		"idle as long as no progress, which is said to cancel",
		"no_progress_timeout_seconds: 60\n  idle_timeout_seconds: 60\n  ladders: {no_progress: [cancel]}", nil, 3,
	},
	{"no progress as long as the wall clock", "session_wall_clock_seconds: 60\n  no_progress_timeout_seconds: 60", nil, 3},
	{
		"no progress with a ladder as long as the wall clock",
		"session_wall_clock_seconds: 60\n  no_progress_timeout_seconds: 60\n  ladders: {no_progress: [retry]}", nil, 3,
	},
	{"no progress as long as safety", "safety_timeout_seconds: 60\n  no_progress_timeout_seconds: 60", nil, 3},
	{"the cap of holds as long as the wall clock", "hold_timeout_seconds: 14400", nil, 2},
	{
		"the cap of holds as long as safety",
		"session_wall_clock_seconds: 0\n  safety_timeout_seconds: 60\n  hold_timeout_seconds: 60", nil, 4,
	},
	{
		"the first sign as late as the wall clock",
		"idle_timeout_seconds: 60\n  from_first_sign: true\n  first_sign_timeout_seconds: 14400", nil, 4,
	},
	{
		"the first sign as late as safety",
		"idle_timeout_seconds: 60\n  from_first_sign: true\n  first_sign_timeout_seconds: 90\n  safety_timeout_seconds: 90",
		nil, 4,
	},

	{"a reserve of a count that is off", "spend: {reserve: {tokens: 5}}", nil, 2},
	{"a reserve of a cost that is switched off", "spend:\n    cost: 0\n    reserve:\n      cost: 1 EUR", nil, 5},
	{"a reserve of another currency", "spend:\n    cost: 5 EUR\n    reserve:\n      cost: 1 USD", nil, 5},
	{
		"a reserve of another currency than that of a variable", "spend:\n    cost: 5 EUR\n    reserve:\n      cost: 1 EUR",
		variables{costVariable: "5 USD"}, 5,
	},
	{"a reserve as large as its count", "spend: {turns: 5, reserve: {turns: 5}}", nil, 0},
	{"warnings of counts without one", "spend: {warn_at: [0.5]}", nil, 2},
	{"warnings of counts that are off", "spend: {tokens: 0, tools: {bash: 0}, warn_at: [0.5]}", nil, 2},
	{"a ladder of the input of a call without that limit", "ladders: {call_input: [retry]}", nil, 2},
	{"a ladder of errors without that limit", "ladders: {errors: [unstuck]}\n  spend: {tokens: 5}", nil, 2},
	{"a scope without a limit", "scopes:\n  - {scope: a, spend: {tokens: 0}}", nil, 3},
	{"a scope without a name", "scopes:\n  - {spend: {tokens: 5}}", nil, 3},
	{"a scope twice", "scopes:\n  - {scope: a, spend: {tokens: 5}}\n  - {scope: a, spend: {tokens: 5}}", nil, 4},
	{"a scope with a limit of one run", "scopes:\n  - {scope: a, spend: {tokens: 5, errors: 5}}", nil, 3},
	{"a scope with a zone and no period", "scopes:\n  - {scope: a, zone: UTC, spend: {tokens: 5}}", nil, 3},
	{"a scope with a reserve of a limit that is off", "scopes:\n  - {scope: a, spend: {tokens: 5, reserve: {turns: 1}}}", nil, 3},
	{"a scope whose reserve leaves nothing", "scopes:\n  - {scope: a, spend: {tokens: 5, reserve: {tokens: 5}}}", nil, 3},
	{
		"a scope of another currency than the run", "spend: {cost: 5 EUR}\n  scopes:\n  - {scope: a, spend: {cost: 5 USD}}", nil,
		4,
	},
	{
		"two scopes of two currencies",
		"scopes:\n  - {scope: a, spend: {cost: 5 EUR}}\n  - {scope: b, spend: {cost: 5 USD}}", nil, 4,
	},
	{
		"a scope with a name too long for that of a tool",
		"scopes:\n  - {scope: " + strings.Repeat("a", 250) + ", spend: {tools: {bash: 5}}}", nil, 3,
	},

	{"classes where no loop is found", "loop: {mode: off, classes: {deploy: change}}", nil, 2},
	{"waits where no loop is found", "loop: {mode: off, waits: end}", nil, 2},
	{"volatile fields where no loop is found", "loop: {volatile: [a], mode: off}", nil, 2},
	{"a ladder of loops that are never found", "ladders: {loop: [wait]}\n  loop: {mode: off}", nil, 2},

	{"a grace longer than its tick", "max_tick_duration_minutes: 1\n  tick_grace_seconds: 61", nil, 3},
	{"a grace longer than the default tick", "tick_grace_seconds: 1801", nil, 2},
	{
		"a grace longer than the tick of a variable", "tick_grace_seconds: 61",
		variables{"WATCHDOG_MAX_TICK_DURATION_MINUTES": "1"}, 2,
	},
	{
		"a grace of a variable longer than its tick", "max_tick_duration_minutes: 1",
		variables{"WATCHDOG_TICK_GRACE_SECONDS": "61"}, 0,
	},
}

func TestContradictions(t *testing.T) {
	var all strings.Builder
	for _, test := range contradictions {
		t.Run(test.sentence, func(t *testing.T) {
			c, err := config.Parse(file, []byte("runtime_controls:\n  "+test.text+"\n"), environment(test.variables))
			require.Nil(t, c)
			require.Equal(t, test.line, only(t, err).Line)
			fmt.Fprintf(&all, "%s:\n\t%v\n", test.sentence, err)
		})
	}
	golden(t, "rejected_contradictions.golden", all.String())
}

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

func TestEffectiveSettings(t *testing.T) {
	for sentence, text := range map[string]string{
		"idle may equal no progress with another first directive": "no_progress_timeout_seconds: 60\n" +
			"  idle_timeout_seconds: 60\n  ladders: {no_progress: [retry]}",
		"safety may exceed the wall clock, which can be extended": "session_wall_clock_seconds: 60\n" +
			"  safety_timeout_seconds: 120",
		"safety may equal the wall clock, which survives a restart": "session_wall_clock_seconds: 60\n" +
			"  safety_timeout_seconds: 60",
		"a ladder of holds needs no cap, because a hold may bring its own":  "ladders: {hold: [retry]}",
		"a ladder of idle needs no limit, because a hold may bring its own": "ladders: {idle: [retry]}",
		"a ladder may end in a wait, or in a cancel after it":               "ladders: {idle: [retry, wait], hold: [wait, cancel]}",
		"a ladder of idle may be one of the first sign": "no_progress_timeout_seconds: 60\n  from_first_sign: true\n" +
			"  first_sign_timeout_seconds: 30\n  ladders: {idle: [retry]}",
		"a first sign may take longer than idle allows afterwards": "idle_timeout_seconds: 60\n" +
			"  from_first_sign: true\n  first_sign_timeout_seconds: 300",
		"events need no limit, because a layer may have one": "events: {material: [commit], unknown: activity}",
		"a kind may be said to be what unknown kinds are":    "events: {ignored: [token], unknown: ignored}",
		"a tick may be longer than a session: it need not be in one": "session_wall_clock_seconds: 60\n" +
			"  max_tick_duration_minutes: 30",
		"a grace may be as long as its tick": "max_tick_duration_minutes: 1\n  tick_grace_seconds: 60",
		"without a wall clock idle may have any length": "session_wall_clock_seconds: 0\n" +
			"  idle_timeout_seconds: 9223372036",
		"a ladder of a count needs no limit, because a scope may have one": "ladders: {tokens: [wait], cost: [wait], " +
			"requests: [wait], turns: [wait], tool_calls: [wait]}",
		"a reserve may be one less than its limit":    "spend: {turns: 5, reserve: {turns: 4}}",
		"warnings of counts may be of one tool only":  "spend: {tools: {bash: 5}, warn_at: [0.5]}",
		"a ladder of errors may be one of retries":    "spend: {retries: 5}\n  ladders: {errors: [unstuck]}",
		"scopes may have the currency of the run":     "spend: {cost: 5 EUR}\n  scopes:\n  - {scope: a, spend: {cost: 5 EUR}}",
		"what is off may say that it has no settings": "loop: {mode: off, waits: go, classes: 0, volatile: 0}",
		"settings that are switched off need nothing": "from_first_sign: false\n" +
			"  first_sign_timeout_seconds: 0\n  ladders: {idle: [], no_progress: []}",
	} {
		t.Run(sentence, func(t *testing.T) {
			_, err := config.Parse(file, []byte("runtime_controls:\n  "+text+"\n"), config.NoEnvironment)
			require.NoError(t, err)
		})
	}
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
