package config_test

import (
	"fmt"
	"log/slog"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
	"github.com/seed62658d38/watchdog/config"
	"github.com/seed62658d38/watchdog/stall"
	"github.com/seed62658d38/watchdog/watchdogtest"
)

// everySetting is a file in which no setting of runtime_controls has its default, but those of counts: see TestCounts.
const everySetting = `runtime_controls:
  disabled: true
  session_wall_clock_seconds: 3600
  warn_at: [0.5, 0.75]
  reserve_seconds: 60
  safety_timeout_seconds: 7200
  no_progress_timeout_seconds: 900
  idle_timeout_seconds: 90.5
  hold_timeout_seconds: 300
  from_first_sign: true
  first_sign_timeout_seconds: 120
  ladders:
    idle: [retry, "retry", cancel]
    no_progress: [unstuck]
    hold:
    - wait
    - cancel
  spend:
    tokens: 1100000
    cost: 5.00 EUR
    tools: {bash: 100, "404": 20}
    reserve: {tokens: 3000, cost: 0.25 EUR}
    warn_at: [0.5, 0.9]
  events:
    material: [tool.result, commit, "404"]
    activity: [token]
    ignored: ["on"]
    unknown: activity
  max_tick_duration_minutes: 7.5
  tick_grace_seconds: 10
`

var everyBudget = watchdog.Budget{
	WallClock: time.Hour, WarnAt: []float64{0.5, 0.75}, Reserve: time.Minute, Safety: 2 * time.Hour,
	NoProgress: 15 * time.Minute, Idle: 90*time.Second + time.Second/2, Hold: 5 * time.Minute,
	FromFirstSign: true, FirstSign: 2 * time.Minute,
	Ladders: watchdog.Ladders{
		Idle:       []watchdog.DirectiveKind{watchdog.DirectiveRetry, watchdog.DirectiveRetry, watchdog.DirectiveCancel},
		NoProgress: []watchdog.DirectiveKind{watchdog.DirectiveUnstuck},
		Hold:       []watchdog.DirectiveKind{watchdog.DirectiveWait, watchdog.DirectiveCancel},
	},
	Spend: watchdog.Spend{
		Tokens: 1_100_000, Cost: euros(5_000_000), Tools: map[string]int64{"bash": 100, "404": 20},
		Reserve: watchdog.Totals{Tokens: 3000, Cost: 250_000},
		WarnAt:  []float64{0.5, 0.9},
	},
}

func euros(micros int64) watchdog.Money { return watchdog.Money{Micros: micros, Currency: "EUR"} }

// TestControlsFile reads everySetting.
func TestControlsFile(t *testing.T) {
	c := parse(t, everySetting, nil)
	require.True(t, c.Disabled)
	require.Equal(t, everyBudget, c.Budget)
	require.Equal(t, watchdog.Kinds{
		Material: []string{"tool.result", "commit", "404"}, Activity: []string{"token"}, Ignored: []string{"on"},
		Unknown: watchdog.ClassActivity,
	}, c.Kinds)
	require.Equal(t, config.Tick{Limit: 7*time.Minute + 30*time.Second, Grace: 10 * time.Second}, c.Tick)
	compare(t, "limits_every.golden", set(c))
	requireUsable(t, c)
}

// TestCounts sets the limit of each count, its reserve if it adds up, and its ladder, in a file and by variables.
func TestCounts(t *testing.T) {
	var limits, kept, ladders []string
	inEnvironment := variables{}
	write := func(list *[]string, block, name, value string) {
		*list = append(*list, name+": "+value)
		inEnvironment["WATCHDOG_"+strings.ToUpper(block+name)] = value
	}
	var want watchdog.Budget
	set := func(part any, field string, n int64) bool {
		f := reflect.ValueOf(part).Elem().FieldByName(field)
		if f.IsValid() {
			f.SetInt(n)
		}
		return f.IsValid()
	}
	for i, of := range reflect.VisibleFields(reflect.TypeFor[watchdog.Spend]()) {
		name := strings.ToLower(regexp.MustCompile(`\B[A-Z]`).ReplaceAllString(of.Name, "_$0"))
		n, reserve, unit := int64(10+i), int64(1+i), ""
		switch of.Type {
		case reflect.TypeFor[int64]():
			set(&want.Spend, of.Name, n)
			if set(&want.Spend.Reserve, of.Name, reserve) {
				write(&kept, "spend_reserve_", name, fmt.Sprint(reserve))
			}
		case reflect.TypeFor[watchdog.Money]():
			unit, want.Spend.Cost = " EUR", euros(1e6*n)
			set(&want.Spend.Reserve, of.Name, 1e6*reserve)
			write(&kept, "spend_reserve_", name, fmt.Sprint(reserve, unit))
		default: // Tools, and what is no limit
			continue
		}
		write(&limits, "spend_", name, fmt.Sprint(n, unit))
		if ladder := reflect.ValueOf(&want.Ladders).Elem().FieldByName(of.Name); ladder.IsValid() {
			ladder.Set(reflect.ValueOf([]watchdog.DirectiveKind{watchdog.DirectiveWait}))
			write(&ladders, "ladders_", name, "wait")
		}
	}
	all := func(lines []string) string { return strings.Join(lines, ", ") }
	text := fmt.Sprintf("runtime_controls:\n  spend: {%s, reserve: {%s}}\n  ladders: {%s}\n", all(limits), all(kept),
		strings.ReplaceAll(all(ladders), "wait", "[wait]"))
	c := parse(t, text, nil)
	require.Equal(t, want, c.Budget)
	c = parse(t, "", inEnvironment)
	require.Equal(t, want, c.Budget)
	_, err := config.Parse(file, []byte("runtime_controls: {spend: {loop: 5}}\n"), config.NoEnvironment)
	require.ErrorContains(t, only(t, err), "unknown key")
}

// TestListedKeys expects all keys of a block in the error about one that is something else.
func TestListedKeys(t *testing.T) {
	for _, s := range new(config.Config).Limits() {
		block, name, _ := strings.Cut(s.Key, ".")
		_, err := config.Parse(file, []byte(block+": 5\n"), config.NoEnvironment)
		name, _, _ = strings.Cut(name, ".") // of the key, or of an inner block
		require.Regexp(t, "the keys (.*, )?"+name+"(,|$)", only(t, err).Problem)
	}
}

func settings(c *config.Config) [][3]string {
	var settings [][3]string
	for _, s := range c.Limits() {
		settings = append(settings, [3]string{s.Key, s.Value, s.Source})
	}
	return settings
}

func TestDefaults(t *testing.T) {
	for sentence, text := range map[string]string{
		"no file at all":          "",
		"blocks without anything": "runtime_controls:\n  ladders:\n  events:\n",
		"blocks of no keys":       "runtime_controls: {ladders: {}, events: {}}\n",
		"keys without values": "runtime_controls:\n  idle_timeout_seconds:\n  from_first_sign:\n" +
			"  ladders: {idle: , hold: ~}\n  events: {material: null, unknown: }\n  max_tick_duration_minutes:\n",
		"zeros for what is off anyway": "runtime_controls: {idle_timeout_seconds: 0, no_progress_timeout_seconds: 0, " +
			"safety_timeout_seconds: 0, hold_timeout_seconds: 0, first_sign_timeout_seconds: 0}\n",
		"a sentinel of no settings": "stall:\n  probe: {}\n",
		"a sentinel that is off": "stall: {no_output_timeout: 0, keep_background: false, terminal_patterns: [], " +
			"probe: {interval: , command: ~, on_probe_error: ignore}}\n",
	} {
		t.Run(sentence, func(t *testing.T) {
			c := parse(t, text, nil)
			require.Equal(t, watchdog.Budget{}, c.Budget)
			require.Equal(t, watchdog.Kinds{}, c.Kinds)
			require.Equal(t, config.Tick{}, c.Tick)
			require.Equal(t, stall.Config{}, c.Stall)
		})
	}
}

// TestTickBounds reads ticks at and between the bounds.
func TestTickBounds(t *testing.T) {
	for written, want := range map[string]time.Duration{
		"1": bound.MinTick, "60": bound.MaxTick, "60.000": bound.MaxTick, "1.000000001": time.Minute + 60,
		"30": bound.DefaultTick,
	} {
		t.Run(written, func(t *testing.T) {
			c := parse(t, "", variables{"WATCHDOG_MAX_TICK_DURATION_MINUTES": written})
			require.Equal(t, want, c.Tick.Limit)
		})
	}
}

// TestSwitchedOffLimit expects off for a limit that the host switched off.
func TestSwitchedOffLimit(t *testing.T) {
	c := parse(t, everySetting, nil)
	c.Budget.Idle = watchdog.NoLimit
	require.Contains(t, settings(c), [3]string{"runtime_controls.idle_timeout_seconds", "off", "limits.yaml:8"})
}

// TestLookupNames never looks up a variable with an empty name.
func TestLookupNames(t *testing.T) {
	_, err := config.Load("", func(name string) (string, bool) {
		require.NotEmpty(t, name)
		return "", false
	})
	require.NoError(t, err)
}

// FuzzMoney compares the parsing of money with exact arithmetic.
func FuzzMoney(f *testing.F) {
	fuzzNumber(f, costVariable, naiveMoney, func(c *config.Config) watchdog.Money { return c.Budget.Spend.Cost },
		"0", "0 EUR", "0.000000", "5.00 EUR", "0.000001 USDC", "0.0000001 EUR", "9223372036854.775806 EUR",
		"9223372036854.775807 EUR", "5", "5 eur", "-1 EUR", "05 EUR", "1e3 EUR", "5 E")
}

var plainMoney = regexp.MustCompile(`^(?:0|[1-9][0-9]*)(?:\.[0-9]{1,6})?(?: ([A-Z][A-Z0-9]{2,15}))?$`)

func naiveMoney(text string) (watchdog.Money, bool) {
	parts := plainMoney.FindStringSubmatch(text)
	if parts == nil {
		return watchdog.Money{}, false
	}
	number, _, _ := strings.Cut(text, " ")
	micros, fits := inUnits(number, 1e6)
	if micros == 0 {
		return watchdog.Money{}, fits
	}
	return watchdog.Money{Micros: micros, Currency: parts[1]}, fits && parts[1] != ""
}

const (
	disabledKey      = "runtime_controls.disabled"
	disabledVariable = "WATCHDOG_DISABLED"
)

// TestDisabled switches all guards off and on, by the file, by the variable and by both.
func TestDisabled(t *testing.T) {
	const key = "runtime_controls:\n  disabled: "
	for sentence, test := range map[string]struct {
		text, value string
		off         bool
		source      string
	}{
		"nothing leaves the guards on":                    {"", "", false, "default"},
		"the key switches them off":                       {key + "true\n", "", true, "limits.yaml:2"},
		"the variable switches them off":                  {"", "true", true, "environment " + disabledVariable},
		"the variable switches them off against the file": {key + "false\n", "true", true, "environment " + disabledVariable},
		"and on":                                 {key + "true\n", "false", false, "environment " + disabledVariable},
		"a blank variable leaves it to the file": {key + "true\n", " ", true, "limits.yaml:2"},
		"the switch of the sweeper does not count then": {key + "true\nsweep: {enabled: true}\n", "", true, "limits.yaml:2"},
		"limits are kept for when it is on again":       {key + "true\n  idle_timeout_seconds: 60\n", "", true, "limits.yaml:2"},
	} {
		t.Run(sentence, func(t *testing.T) {
			c := parse(t, test.text, variables{disabledVariable: test.value})
			require.Equal(t, []bool{test.off, test.off, test.off}, []bool{c.Disabled, c.Stall.Disabled, c.Sweep.Disabled})
			require.Contains(t, settings(c), [3]string{disabledKey, fmt.Sprint(test.off), test.source})
			if test.off {
				require.Contains(t, settings(c), [3]string{"sweep.enabled", "false", test.source})
			}
		})
	}
	t.Run("the switch of the sweeper is its own", func(t *testing.T) {
		c := parse(t, "", variables{"WATCHDOG_ENABLED": "false"})
		require.Equal(t, []bool{false, false, true}, []bool{c.Disabled, c.Stall.Disabled, c.Sweep.Disabled})
	})
	t.Run("with the host's prefix", func(t *testing.T) {
		c, err := config.Loader{Prefix: "AGENT_", Environment: []string{"AGENT_DISABLED=true"}}.Load("")
		require.NoError(t, err)
		require.True(t, c.Disabled)
		c, err = config.Loader{Prefix: "AGENT_", Environment: []string{"WATCHDOG_DISABLED=true"}}.Load("")
		require.NoError(t, err)
		require.False(t, c.Disabled)
	})
}

// origin is a file of the system that the names come from, with its defaults.
const origin = `
orchestrator:
  runtime_backend: codex
logging:
  level: info
runtime_controls:
  mcp_tool_timeout_seconds: 0
  generation_idle_timeout_seconds: 7200
  generation_no_progress_timeout_seconds: 14400
  generation_safety_timeout_seconds: 0
  watchdog_poll_seconds: 2.0
`

func TestOtherNames(t *testing.T) {
	c := parse(t, origin, nil)
	require.Equal(t, watchdog.Budget{Idle: 2 * time.Hour, NoProgress: 4 * time.Hour}, c.Budget)
	compare(t, "limits_origin.golden", set(c))

	loader := config.Loader{Prefix: "OUROBOROS_", Environment: []string{
		"OUROBOROS_GENERATION_IDLE_TIMEOUT_SECONDS=60", "OUROBOROS_GENERATION_SAFETY_TIMEOUT_SECONDS=3600",
		"OUROBOROS_MCP_TOOL_TIMEOUT_SECONDS=5", "OUROBOROS_GENERATION_TIMEOUT=1", "OUROBOROS_AGENT_RUNTIME=codex",
	}}
	c, err := loader.Parse(file, []byte(origin))
	require.NoError(t, err)
	require.Equal(t, watchdog.Budget{Idle: time.Minute, NoProgress: 4 * time.Hour, Safety: time.Hour}, c.Budget)
	compare(t, "limits_origin_variables.golden", set(c))

	_, err = config.Parse(file, []byte("generation_idle_timeout_seconds: 5\n"), config.NoEnvironment)
	require.ErrorContains(t, only(t, err), "write it inside of runtime_controls:")
}

// TestDurationsOfNewKeys keeps the spelling of durations to one: a new key has a length such as 30s and no unit in its
// name. These are older.
func TestDurationsOfNewKeys(t *testing.T) {
	old := []string{
		"session_wall_clock_seconds", "reserve_seconds", "safety_timeout_seconds", "no_progress_timeout_seconds",
		"idle_timeout_seconds", "hold_timeout_seconds", "first_sign_timeout_seconds", "max_tick_duration_minutes",
		"tick_grace_seconds",
	}
	var c config.Config
	for _, s := range c.Limits() {
		name := s.Key[strings.LastIndex(s.Key, ".")+1:]
		if strings.Contains(s.Allowed, "number of seconds") || strings.Contains(s.Allowed, "number of minutes") {
			require.Contains(t, old, name)
		} else {
			require.NotRegexp(t, "_(seconds|minutes|ms)$", name)
		}
	}
}

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
  ladders: {idle: [unstuck], no_progress: [unstuck], call_input: [retry]}
  spend: {cost: 5 EUR, call_input: 100, reserve: {cost: 1 EUR}, warn_at: [0.5]}
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
	machine := watchdogtest.NewMockClock()
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
