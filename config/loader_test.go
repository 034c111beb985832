package config_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"gotest.tools/v3/golden"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/config"
)

func TestBlankVariables(t *testing.T) {
	text := []byte("runtime_controls: {session_wall_clock_seconds: 60}\n")
	for _, blank := range []string{"", " ", "\t\r\n", "\u00a0"} {
		c, err := config.Parse(file, text, environment(variables{
			"WATCHDOG_SESSION_WALL_CLOCK_SECONDS": blank, "WATCHDOG_WARN_AT": blank, "WATCHDOG_STALL_ON_STALL": blank,
		}))
		require.NoError(t, err, "%q", blank)
		require.Equal(t, wall(time.Minute), c.Budget)
		require.Equal(t, "limits.yaml:1", c.Limits()[1].Source)
	}
}

// TestForeignVariables expects no error for a variable of the host or of another program.
func TestForeignVariables(t *testing.T) {
	for sentence, variable := range map[string]string{
		"a variable of systemd":            "WATCHDOG_USEC=30000000",
		"another of systemd":               "WATCHDOG_PID=1",
		"a variable of the host":           "WATCHDOG_DSN=sqlite:x",
		"a service of Kubernetes":          "WATCHDOG_SERVICE_HOST=10.0.0.1",
		"a service with the name of ours":  "WATCHDOG_SWEEP_PORT_80_TCP_ADDR=10.0.0.1",
		"a variable of Windows":            "=C:=C:\\",
		"a name that is only close enough": "DOG_WARN_AT=0.5",
		"a misspelt one that is blank":     "WATCHDOG_SWEEP_INTERVAL_MS= ",
		"one that is set twice":            "WATCHDOG_WARN_AT=0.5",
	} {
		t.Run(sentence, func(t *testing.T) {
			_, err := config.Loader{Environment: []string{variable, "WATCHDOG_WARN_AT=0.5", "WATCHDOG_WARN_AT=x"}}.Load("")
			require.NoError(t, err)
		})
	}
	t.Run("the environment of the process is searched", func(t *testing.T) {
		t.Setenv("WATCHDOG_SWEEP_INTERVAL_MS", "60000")
		_, err := config.Load("", nil)
		require.ErrorContains(t, err, "WATCHDOG_SWEEP_INTERVAL_MS: is not a variable that is read")
	})
	t.Run("an empty environment has nothing", func(t *testing.T) {
		t.Setenv("WATCHDOG_WARN_AT", "x")
		_, err := config.Loader{Environment: []string{}}.Load("")
		require.NoError(t, err)
	})
}

func TestPrefix(t *testing.T) {
	loader := config.Loader{Prefix: "OUROBOROS_", Environment: []string{
		"OUROBOROS_SESSION_WALL_CLOCK_SECONDS=60", "OUROBOROS_AGENT_RUNTIME=codex", "OUROBOROS_GENERATION_TIMEOUT=1",
		"WATCHDOG_SESSION_WALL_CLOCK_SECONDS=90",
	}}
	c, err := loader.Load("testdata/limits.yaml")
	require.NoError(t, err)
	require.Equal(t, time.Minute, c.Budget.WallClock)
	require.Equal(t, "OUROBOROS_SESSION_WALL_CLOCK_SECONDS", c.Limits()[1].Variable)
	require.Equal(t, "environment OUROBOROS_SESSION_WALL_CLOCK_SECONDS", c.Limits()[1].Source)

	for text, want := range map[string]string{
		"OUROBOROS_WARN_AT=80": `environment OUROBOROS_WARN_AT: "80" is not between 0 and 1; allowed: ` +
			"different fractions between 0 and 1, in a file such as [0.5, 0.8], " +
			"in the environment such as 0.5,0.8, or 0 for none",
		"OUROBOROS_SWEEP_INTERVAL_MS=1": "environment OUROBOROS_SWEEP_INTERVAL_MS: is not a variable that is read; " +
			"did you mean OUROBOROS_INTERVAL_MS?",
	} {
		_, err := config.Loader{Prefix: "OUROBOROS_", Environment: []string{text}}.Load("")
		require.EqualError(t, err, want)
	}
	lookup := environment(variables{"OUROBOROS_SESSION_WALL_CLOCK_SECONDS": "90"})
	c, err = config.Loader{Prefix: "OUROBOROS_", LookupEnv: lookup}.Parse("", nil)
	require.NoError(t, err)
	require.Equal(t, wall(90*time.Second), c.Budget)
}

func TestInvalidLoader(t *testing.T) {
	for want, loader := range map[string]config.Loader{
		"Prefix OUROBOROS is not":                  {Prefix: "OUROBOROS"},
		`Prefix "A=\n_" is not`:                    {Prefix: "A=\n_"},
		"LookupEnv and Environment are both set":   {LookupEnv: config.NoEnvironment, Environment: []string{}},
		"HostBlocks has stall, which is read here": {HostBlocks: []string{"steps", "stall"}},
	} {
		c, err := loader.Parse(file, nil)
		require.Nil(t, c)
		require.ErrorIs(t, err, watchdog.ErrInvalid)
		require.ErrorContains(t, err, want)
	}
}

// TestOverrides expects the value of each variable in force, over a file in which no setting has its default.
func TestOverrides(t *testing.T) {
	type override struct{ value, key, shown string }
	for _, of := range []struct {
		text, block string
		variables   map[string]override
	}{
		{everySetting, "runtime_controls.", map[string]override{
			"WATCHDOG_RESERVE_SECONDS":            {"0.25", "reserve_seconds", "250ms"},
			warnVariable:                          {"0.25,0.75", "warn_at", "0.25, 0.75"},
			"WATCHDOG_SAFETY_TIMEOUT_SECONDS":     {"1800", "safety_timeout_seconds", "30m0s"},
			"WATCHDOG_IDLE_TIMEOUT_SECONDS":       {"0", "idle_timeout_seconds", "off"},
			"WATCHDOG_FROM_FIRST_SIGN":            {"false", "from_first_sign", "false"},
			"WATCHDOG_FIRST_SIGN_TIMEOUT_SECONDS": {"0", "first_sign_timeout_seconds", "off"},
			"WATCHDOG_LADDERS_HOLD":               {"unstuck", "ladders.hold", "unstuck, cancel"},
			"WATCHDOG_LADDERS_TOKENS":             {"retry", "ladders.tokens", "retry, cancel"},
			"WATCHDOG_SPEND_TOKENS":               {"4000", "spend.tokens", "4000"},
			costVariable:                          {"7.125 EUR", "spend.cost", "7.125 EUR"},
			toolsVariable:                         {"search=7,a=b=0,x=y=2", "spend.tools", "search=7, x=y=2"},
			"WATCHDOG_SPEND_RESERVE_COST":         {"0.000001 EUR", "spend.reserve.cost", "0.000001 EUR"},
			"WATCHDOG_SPEND_WARN_AT":              {"0", "spend.warn_at", "off"},
			"WATCHDOG_EVENTS_UNKNOWN":             {"material", "events.unknown", "material"},
			"WATCHDOG_MAX_TICK_DURATION_MINUTES":  {"60", "max_tick_duration_minutes", "1h0m0s"},
			"WATCHDOG_TICK_GRACE_SECONDS":         {"450", "tick_grace_seconds", "7m30s"},
		}},
		{everyStall, "stall.", map[string]override{
			"WATCHDOG_STALL_NO_OUTPUT_TIMEOUT":           {"0", "no_output_timeout", "off"},
			"WATCHDOG_STALL_ACTIVITY_SOURCE":             {"output", "activity_source", "output"},
			"WATCHDOG_STALL_PROBE_INTERVAL":              {"1m", "probe.interval", "1m0s"},
			"WATCHDOG_STALL_PROBE_TIMEOUT":               {"1ns", "probe.timeout", "1ns"},
			"WATCHDOG_STALL_PROBE_REQUIRE_ZERO_EXIT":     {"true", "probe.require_zero_exit", "true"},
			"WATCHDOG_STALL_PROBE_ON_PROBE_ERROR":        {"stall", "probe.on_probe_error", "stall"},
			"WATCHDOG_STALL_PROBE_PROBE_ERROR_THRESHOLD": {"1000000", "probe.probe_error_threshold", "1000000"},
			"WATCHDOG_STALL_STALL_THRESHOLD":             {"5", "stall_threshold", "5"},
			"WATCHDOG_STALL_ON_STALL":                    {"interrupt", "on_stall", "interrupt"},
			"WATCHDOG_STALL_ON_TERMINAL":                 {"fail", "on_terminal", "fail"},
			"WATCHDOG_STALL_INTERRUPT_GRACE":             {"1m", "interrupt_grace", "1m0s"},
			"WATCHDOG_STALL_TERMINATE_GRACE":             {"0", "terminate_grace", "none"},
			"WATCHDOG_STALL_ALSO_END_TIMEOUT":            {"2s", "also_end.timeout", "2s"},
			"WATCHDOG_STALL_FIRST_SIGNAL":                {"3", "first_signal", "SIGQUIT"},
			"WATCHDOG_STALL_KEEP_BACKGROUND":             {"false", "keep_background", "false"},
			"WATCHDOG_STALL_FINGERPRINT_PREFIX":          {"404", "fingerprint_prefix", "404"},
		}},
		{everySweep, "sweep.", map[string]override{ // see TestSweepVariables
			"WATCHDOG_STARTUP_DELAY_MS": {"0", "startup_delay", "none"},
			"WATCHDOG_STOP_TIMEOUT_MS":  {"9223372036854", "stop_timeout", "2562047h47m16.854s"},
			"WATCHDOG_KEEPER_HOST":      {"7", "keeper.host", "7"},
		}},
	} {
		for variable, want := range of.variables {
			c := parse(t, of.text, variables{variable: want.value})
			require.Contains(t, settings(c), [3]string{of.block + want.key, want.shown, "environment " + variable})
		}
	}
}

func TestLoad(t *testing.T) {
	t.Run("an empty path means no file", func(t *testing.T) {
		c := parse(t, "", nil)
		require.Equal(t, watchdog.Budget{}, c.Budget)
	})
	t.Run("a path that does not exist is an error", func(t *testing.T) {
		_, err := config.Load(filepath.Join(t.TempDir(), "missing.yaml"), config.NoEnvironment)
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.ErrorContains(t, err, "missing.yaml")
	})
	t.Run("a path that is a folder is an error", func(t *testing.T) {
		dir := t.TempDir()
		_, err := config.Load(dir, config.NoEnvironment)
		require.ErrorContains(t, err, dir)
	})
	t.Run("an error in a file names its path", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "limits.yaml")
		require.NoError(t, os.WriteFile(path, []byte("runtime_controls: 5\n"), 0o600))
		_, err := config.Load(path, config.NoEnvironment)
		require.ErrorContains(t, err, path+":1: runtime_controls: 5 is not a mapping")
	})
	t.Run("a file that never ends is too large", func(t *testing.T) {
		if _, err := os.Stat("/dev/zero"); err != nil {
			t.Skip("this system has no /dev/zero")
		}
		_, err := config.Load("/dev/zero", config.NoEnvironment)
		require.ErrorContains(t, err, "larger than 1 MiB")
	})
	t.Run("the environment of the process is the default one", func(t *testing.T) {
		t.Setenv("WATCHDOG_SESSION_WALL_CLOCK_SECONDS", "90")
		c, err := config.Load("", nil)
		require.NoError(t, err)
		require.Equal(t, 90*time.Second, c.Budget.WallClock)
	})
	t.Run("errors of a text without a name have the line", func(t *testing.T) {
		_, err := config.Parse("", []byte("runtime_controls: 5\n"), config.NoEnvironment)
		require.ErrorContains(t, err, "line 1: runtime_controls: 5 is not a mapping")
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// longList is a list of all keys or variables of a large block. Golden files have only its first name: each new setting
// would change many.
var longList = regexp.MustCompile(`(the keys|the variables) ([^ \n]+,)( [^ \n]+,){5,} [^ \n]+`)

// compare compares a text with a golden file.
func compare(t *testing.T, name, got string) {
	t.Helper()
	golden.Assert(t, longList.ReplaceAllString(got, "$1 $2 …"), name)
}

// set is what a host prints of a config, but its defaults.
func set(c *config.Config) string {
	return regexp.MustCompile(`(?m)^.* default\n`).ReplaceAllString(c.String(), "")
}

// environment returns a Lookup in a map.
func environment(variables map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, set := variables[name]
		return value, set
	}
}

// parse returns the limits of a text and variables that are right.
func parse(t *testing.T, text string, v variables) *config.Config {
	t.Helper()
	c, err := config.Parse(file, []byte(text), environment(v))
	require.NoError(t, err, text)
	return c
}

const (
	wallClockVariable  = "WATCHDOG_SESSION_WALL_CLOCK_SECONDS"
	idleVariable       = "WATCHDOG_IDLE_TIMEOUT_SECONDS"
	noProgressVariable = "WATCHDOG_NO_PROGRESS_TIMEOUT_SECONDS"
	costVariable       = "WATCHDOG_SPEND_COST"
	toolsVariable      = "WATCHDOG_SPEND_TOOLS"
	noOutputVariable   = "WATCHDOG_STALL_NO_OUTPUT_TIMEOUT"
	intervalVariable   = "WATCHDOG_INTERVAL_MS"
	warnVariable       = "WATCHDOG_WARN_AT"
)

var rejectedVariables = []row{
	{"a space before the number", "", wallClockVariable + "= 5"},
	{"a line end after the number", "", wallClockVariable + "=5\n"},
	{"a Go duration", "", wallClockVariable + "=5s"},
	{"a boolean", "", wallClockVariable + "=true"},
	{"a plus", "", wallClockVariable + "=+5"},
	{"a negative number", "", wallClockVariable + "=-5"},
	{"an exponent", "", wallClockVariable + "=1e3"},
	{"a hexadecimal number", "", wallClockVariable + "=0x10"},
	{"a leading zero", "", wallClockVariable + "=010"},
	{"an underscore", "", wallClockVariable + "=1_000"},
	{"a thousands separator", "", wallClockVariable + "=1,000"},
	{"a quoted number", "", wallClockVariable + "=" + `"5"`},
	{"null", "", wallClockVariable + "=null"},
	{"infinity", "", wallClockVariable + "=inf"},
	{"longer than a duration", "", wallClockVariable + "=9223372037"},
	{"not UTF-8", "", wallClockVariable + "=5\xff"},
	{"too long to repeat", "", wallClockVariable + "=" + strings.Repeat("x", 100)},
	{"a list as in a file", "", warnVariable + "=[0.5]"},
	{"a space in a list", "", warnVariable + "=0.5, 0.8"},
	{"a comma too many", "", warnVariable + "=0.5,"},
	{"a fraction of 80", "", warnVariable + "=0.5,80"},
	{"zero among fractions", "", warnVariable + "=0,0.5"},
	{"a flag of a number", "", "WATCHDOG_FROM_FIRST_SIGN=1"},
	{"zero for a ladder", "", "WATCHDOG_LADDERS_HOLD=0"},
	{"a ladder as in a file", "", "WATCHDOG_LADDERS_HOLD=[retry]"},
	{"a space in a ladder", "", "WATCHDOG_LADDERS_HOLD=wait, retry"},
	{"a ladder that goes on after a cancel", "", "WATCHDOG_LADDERS_HOLD=cancel,retry"},
	{"more than 100 rungs", "", "WATCHDOG_LADDERS_HOLD=" + strings.Repeat("wait,", 100) + "wait"},
	{"money without a currency", "", costVariable + "=5"},
	{"negative money", "", costVariable + "=-5 EUR"},
	{"two spaces in money", "", costVariable + "=5  EUR"},
	{"a tool without a number", "", toolsVariable + "=bash=5,search"},
	{"a tool with a negative number", "", toolsVariable + "=bash=-5"},
	{"tools as in a file", "", toolsVariable + "={bash: 5}"},
	{"a tool without a name", "", toolsVariable + "==5"},
	{"a comma too many after tools", "", toolsVariable + "=bash=5,"},
	{"a negative count", "", "WATCHDOG_SPEND_TURNS=-1"},
	{"a mistyped class", "", "WATCHDOG_EVENTS_UNKNOWN=Activity"},
	{"a tick longer than the longest", "", "WATCHDOG_MAX_TICK_DURATION_MINUTES=61"},
	{"a grace of zero", "", "WATCHDOG_TICK_GRACE_SECONDS=0.0"},
}

var rejectedStallVariables = []row{
	{"a length without a unit", "", noOutputVariable + "=300"},
	{"a length in quotes", "", noOutputVariable + "=" + `"5m"`},
	{"a length with a space", "", noOutputVariable + "=5m "},
	{"a negative length", "", noOutputVariable + "=-5m"},
	{"a length that is off", "", noOutputVariable + "=off"},
	{"an interval of zero", "", "WATCHDOG_STALL_PROBE_INTERVAL=0"},
	{"an end elsewhere without a timeout", "", "WATCHDOG_STALL_ALSO_END_TIMEOUT=0"},
	{"a threshold of one probe", "", "WATCHDOG_STALL_STALL_THRESHOLD=1"},
	{"a threshold with a sign", "", "WATCHDOG_STALL_PROBE_PROBE_ERROR_THRESHOLD=+3"},
	{"an unknown output", "", "WATCHDOG_STALL_ACTIVITY_SOURCE=all"},
	{"an action in capitals", "", "WATCHDOG_STALL_ON_STALL=FAIL"},
	{"a flag of a number", "", "WATCHDOG_STALL_KEEP_BACKGROUND=1"},
	{"a prefix that ends with a slash", "", "WATCHDOG_STALL_FINGERPRINT_PREFIX=ci/"},
}

var rejectedSweepVariables = []row{
	{"an interval with a unit", "", intervalVariable + "=5m"},
	{"an interval in milliseconds with a unit", "", intervalVariable + "=300000ms"},
	{"an interval of zero", "", intervalVariable + "=0"},
	{"a negative interval", "", intervalVariable + "=-1"},
	{"an interval with a plus", "", intervalVariable + "=+300000"},
	{"an interval with a space", "", intervalVariable + "=300000 "},
	{"an interval in quotes", "", intervalVariable + "=" + `"300000"`},
	{"a fraction of a millisecond", "", intervalVariable + "=0.5"},
	{"a whole number with decimals", "", intervalVariable + "=300000.0"},
	{"an exponent", "", intervalVariable + "=3e5"},
	{"a number that is octal to some", "", intervalVariable + "=0300000"},
	{"a number that is too long", "", intervalVariable + "=9223372036855"},
	{"a number that is far too long", "", intervalVariable + "=" + strings.Repeat("9", 100)},
	{"a threshold that is off", "", "WATCHDOG_STALLED_THRESHOLD_MS=off"},
	{"a negative minimum age", "", "WATCHDOG_MIN_AGE_MS=-1"},
	{"a negative delay", "", "WATCHDOG_STARTUP_DELAY_MS=-30000"},
	{"no cancel at all", "", "WATCHDOG_MAX_CANCELLATIONS=0"},
	{"half a cancel", "", "WATCHDOG_MAX_CANCELLATIONS=1.5"},
	{"a rate of cancels in words", "", "WATCHDOG_MAX_CANCELLATIONS_PER_MINUTE=unlimited"},
	{"half a cancel a minute", "", "WATCHDOG_MAX_CANCELLATIONS_PER_MINUTE=0.5"},
	{"a negative grace", "", "WATCHDOG_GRACE_MS=-1"},
	{"a hook without time", "", "WATCHDOG_STOP_TIMEOUT_MS=0"},
	{"no resume in words", "", "WATCHDOG_MAX_RESUMES=none"},
	{"an alert with a unit", "", "WATCHDOG_ALERT_WITHIN_MS=10m"},
	{"a keeper without a pause", "", "WATCHDOG_KEEPER_PACE_MS=0"},
	{"a promise shorter than the shortest", "", "WATCHDOG_KEEPER_PROMISE_MS=999"},
	{"a promise of zero", "", "WATCHDOG_KEEPER_PROMISE_MS=0"},
	{"a promise longer than the longest", "", "WATCHDOG_KEEPER_PROMISE_MS=300001"},
	{"a host with white space", "", "WATCHDOG_KEEPER_HOST= worker-7"},
	{"a flag of a number", "", "WATCHDOG_ENABLED=1"},
	{"a flag in capitals", "", "WATCHDOG_ENABLED=FALSE"},
}

// misspeltVariables are almost variables of ours. Their value may be the host's.
var misspeltVariables = []row{
	{"the style of a block", "", "WATCHDOG_SWEEP_INTERVAL_MS=canary"},
	{"the style of a block, without a unit", "", "WATCHDOG_SWEEP_MIN_AGE=canary"},
	{"the style of a block, unlike any of ours", "", "WATCHDOG_SWEEP_COLOUR=canary"},
	{"the path of a key", "", "WATCHDOG_RUNTIME_CONTROLS_IDLE_TIMEOUT_SECONDS=canary"},
	{"a letter too many", "", "WATCHDOG_SESSION_WALL_CLOCKS_SECONDS=canary"},
	{"another unit", "", "WATCHDOG_IDLE_TIMEOUT_MS=canary"},
	{"no unit", "", "WATCHDOG_STALLED_THRESHOLD=canary"},
	{"the name of the key", "", "WATCHDOG_MAX_CANCELLATIONS_PER_RUN=canary"},
	{"the key without its block", "", "WATCHDOG_NO_OUTPUT_TIMEOUT=canary"},
	{"small letters", "", "watchdog_warn_at=canary"},
	{"hyphens", "", "WATCHDOG-WARN-AT=canary"},
	{"an invisible character", "", "\ufeffWATCHDOG_WARN_AT=canary"},
	{"a space", "", "WATCHDOG_WARN_AT =canary"},
	{"a misspelt prefix", "", "WATCHDOGS_WARN_AT=canary"},
	{"a count without its block", "", "WATCHDOG_INPUT_TOKENS=canary"},
	{"a count with a letter less", "", "WATCHDOG_SPEND_TOKEN=canary"},
	{"a count unlike any of ours", "", "WATCHDOG_SPEND_COST_RESERVE=canary"},
	{"a key that has no variable", "", "WATCHDOG_STALL_PROBE_COMMAND=canary"},
	{"a key that has no variable, without its block", "", "WATCHDOG_TERMINAL_PATTERNS=canary"},
}

// rejectedOtherNames stand in runtime_controls, like contradictions.
var rejectedOtherNames = []row{
	{"both names", "idle_timeout_seconds: 5\n  generation_idle_timeout_seconds: 5"},
	{"both names, the other way round", "generation_safety_timeout_seconds: 5\n  safety_timeout_seconds:"},
	{"the other name twice", "generation_idle_timeout_seconds: 5\n  generation_idle_timeout_seconds: 5"},
	{"an unused key twice", "watchdog_poll_seconds: 5\n  watchdog_poll_seconds: 5"},
	{"a wrong value", "generation_idle_timeout_seconds: 2h"},
	{"a misspelt other name", "generation_idle_timeout_second: 5"},
	{"a misspelt key that is not used", "watchdog_polls_seconds: 5"},
	{"both variables", "{}", "WATCHDOG_IDLE_TIMEOUT_SECONDS=5", "WATCHDOG_GENERATION_IDLE_TIMEOUT_SECONDS=5"},
	{"a wrong variable", "{}", "WATCHDOG_GENERATION_IDLE_TIMEOUT_SECONDS=2h"},
	{"a misspelt variable", "{}", "WATCHDOG_GENERATION_IDLE_TIMEOUT=60"},
}

// rejectedDisabled look like the switch and are not it: the guards would stay on.
var rejectedDisabled = []row{
	{"a number", "runtime_controls: {disabled: 1}\n"},
	{"a word", "runtime_controls: {disabled: yes}\n"},
	{"a flag in quotes", "runtime_controls: {disabled: \"true\"}\n"},
	{"capitals", "runtime_controls: {disabled: TRUE}\n"},
	{"twice", "runtime_controls:\n  disabled: true\n  disabled: false\n"},
	{"a letter less", "runtime_controls: {disable: true}\n"},
	{"the opposite", "runtime_controls: {enabled: false}\n"},
	{"a word of YAML 1.1", "runtime_controls: {off: true}\n"},
	{"at the top level", "disabled: true\n"},
	{"in the block of commands", "stall: {disabled: true}\n"},
	{"the opposite in the block of commands", "stall: {enabled: false}\n"},
	{"in the block of the sweeper", "sweep: {disabled: true}\n"},
	{"a limit that cannot be kept", "runtime_controls: {disabled: true, idle_timeout_seconds: -1}\n"},
	{"a variable that is a number", "", "WATCHDOG_DISABLED=1"},
	{"a variable that is a word", "", "WATCHDOG_DISABLED=on"},
	{"a variable in capitals", "", "WATCHDOG_DISABLED=TRUE"},
	{"a variable with a space", "", "WATCHDOG_DISABLED=true "},
	{"a variable without a letter", "", "WATCHDOG_DISABLE=true"},
	{"a variable of another name", "", "WATCHDOG_OFF=1"},
	{"a variable by the path of the key", "", "WATCHDOG_RUNTIME_CONTROLS_DISABLED=true"},
	{"a variable that is the opposite", "", "WATCHDOG_RUNTIME_CONTROLS_ENABLED=false"},
	{"a variable of commands alone", "", "WATCHDOG_STALL_DISABLED=true"},
	{"a variable under a misspelt prefix", "", "WATCH_DOG_DISABLED=true"},
}
