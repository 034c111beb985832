package config_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/config"
)

var rejections = []struct {
	golden, form string // what the text of a row stands in
	all          []row
}{
	{"rejected_files", "%s", rejectedFiles},
	{"rejected_stall", "%s", rejectedStall},
	{"rejected_sweep", "%s", rejectedSweep},
	{"rejected_keeper", "%s", rejectedKeeper},
	{"rejected_variables", "%s", rejectedVariables},
	{"rejected_stall_variables", "%s", rejectedStallVariables},
	{"rejected_sweep_variables", "%s", rejectedSweepVariables},
	{"misspelt_variables", "%s", misspeltVariables},
	{"rejected_disabled", "%s", rejectedDisabled},
	{"nobody_reads", "%s", nobodyReads},
	{"rejected_other_names", "runtime_controls:\n  %s\n", rejectedOtherNames},
	{"rejected_contradictions", "runtime_controls:\n  %s\n", contradictions},
	{"rejected_stall_contradictions", "stall:\n  %s\n", stallContradictions},
	{"rejected_keeper_contradictions", "sweep:\n  %s\n", keeperContradictions},
}

// TestRejected expects one error, with the place, the value and what is allowed, for each text and variable.
func TestRejected(t *testing.T) {
	for _, of := range rejections {
		t.Run(of.golden, func(t *testing.T) {
			var texts strings.Builder
			for _, test := range of.all {
				c, err := config.Loader{Environment: test[2:]}.Parse(file, fmt.Appendf(nil, of.form, test[1]))
				require.Nil(t, c, test[0])
				fmt.Fprintf(&texts, "%s:\n\t%v\n", test[0], only(t, err))
			}
			compare(t, of.golden+".golden", texts.String())
		})
	}
}

// TestErrorFields expects the parts of an error, which its text puts together.
func TestErrorFields(t *testing.T) {
	const allowed = "; allowed: true or false"
	for text, want := range map[string]config.Error{
		"runtime_controls:\n  disabled: yes\n": {
			File: file, Line: 2, Key: "runtime_controls.disabled", Value: "yes", Problem: "is neither true nor false" + allowed,
		},
		"WATCHDOG_DISABLED=1": {
			Variable: "WATCHDOG_DISABLED", Key: "runtime_controls.disabled", Value: `"1"`,
			Problem: "is neither true nor false" + allowed,
		},
		"WATCHDOG_DISABLE=true": {
			Variable: "WATCHDOG_DISABLE", Problem: "is not a variable that is read; did you mean WATCHDOG_DISABLED?",
		},
		"stall:\n  probe:\n    command: [x, 5]\n    interval: 5s\n": {
			File: file, Line: 3, Key: "stall.probe.command", Value: "item 2",
			Problem: "is not a text to every reader; write it in quotes; allowed: a list of the program and its arguments " +
				"such as [kubectl, get, pods, -o, json], or a text for sh -c",
		},
		"steps:\n  a:\n    stall: {no_output_timeout: 5m}\n    stall: {}\n": {
			File: file, Line: 4, Key: "steps.a.stall", Value: "{…}", Problem: "is a second block; the first is in line 3; write one",
		},
		"- a\n": {
			File: file, Line: 1, Problem: "[…] is not a mapping; allowed: blocks such as runtime_controls:",
		},
	} {
		loader := config.Loader{Environment: []string{}}
		if strings.HasPrefix(text, "WATCHDOG_") {
			loader.Environment, text = append(loader.Environment, text), ""
		}
		_, err := loader.Parse(file, []byte(text))
		require.Equal(t, want, *only(t, err))
	}
}

// only returns the single error.
func only(t *testing.T, err error) *config.Error {
	t.Helper()
	faults := faults(t, err)
	require.Len(t, faults, 1, "%v", err)
	return faults[0]
}

func faults(t *testing.T, err error) []*config.Error {
	t.Helper()
	require.Error(t, err)
	joined, ok := err.(interface{ Unwrap() []error })
	require.True(t, ok)
	var faults []*config.Error
	for _, err := range joined.Unwrap() {
		var fault *config.Error
		require.ErrorAs(t, err, &fault)
		faults = append(faults, fault)
	}
	return faults
}

// TestErrorsTogether expects all errors of a file and the environment in one error.
func TestErrorsTogether(t *testing.T) {
	text := strings.Join([]string{
		"runtime_controls:",
		"  warn_at: [0.5, 2]",
		"  reserve_seconds: -1",
		"  sesion_wall_clock_seconds: 60",
		"  session_wall_clock_seconds: true",
		"runtime_controls: {}",
	}, "\n")
	_, err := config.Parse(file, []byte(text), environment(map[string]string{
		"WATCHDOG_RESERVE_SECONDS": "1m",
		"WATCHDOG_WARN_AT":         "none",
	}))
	compare(t, "rejected_together.golden", err.Error()+"\n")

	var lines []int
	for _, fault := range faults(t, err) {
		lines = append(lines, fault.Line)
	}
	require.Equal(t, []int{2, 3, 4, 5, 6, 0, 0}, lines)
}

// TestErrorsCut expects twenty errors and one that counts the others.
func TestErrorsCut(t *testing.T) {
	lines := func(count int) []byte {
		return []byte("runtime_controls:\n" + strings.Repeat("  budget: 1\n", count))
	}
	_, err := config.Parse(file, lines(20), config.NoEnvironment)
	require.Len(t, faults(t, err), 20)

	_, err = config.Parse(file, lines(10_000), environment(map[string]string{"WATCHDOG_WARN_AT": "80"}))
	cut := faults(t, err)
	require.Len(t, cut, 21)
	require.Equal(t, "limits.yaml:22: here and after it are 9981 more errors, which are not listed", cut[20].Error())
	require.Less(t, len(err.Error()), 20_000)

	_, err = config.Parse(file, lines(20), environment(map[string]string{"WATCHDOG_WARN_AT": "80"}))
	require.EqualError(t, faults(t, err)[20], "environment WATCHDOG_WARN_AT: here is 1 more error, which is not listed")
}

// TestInvalidBudget finds the error of Budget.Validate in the chain.
func TestInvalidBudget(t *testing.T) {
	_, err := config.Parse(file, []byte("runtime_controls: {reserve_seconds: 14401}"), config.NoEnvironment)
	require.ErrorIs(t, err, watchdog.ErrInvalid)
}

// TestParserError finds the error of the YAML parser in the chain.
func TestParserError(t *testing.T) {
	_, err := config.Parse(file, []byte("{"), config.NoEnvironment)
	require.Error(t, errors.Unwrap(only(t, err)))
}

const file = "limits.yaml"

// A row is a sentence and the text of a file. What is rejected also has variables, such as WATCHDOG_WARN_AT=0.5, and
// one error, of which the golden file has the text; what is accepted has blocks that only the host reads.
type row []string

// form returns a func that writes what is rejected into a text.
func form(text string) func(sentence string, written ...any) row {
	return func(sentence string, written ...any) row {
		return row{sentence, fmt.Sprintf(text, written...)}
	}
}

var (
	badSeconds  = form("runtime_controls:\n  session_wall_clock_seconds: %s\n")
	badWarnings = form("runtime_controls:\n  warn_at: %s\n")
	badKey      = form("runtime_controls:\n  %s: %s\n")
	badLadder   = form("runtime_controls:\n  ladders: {hold: %s}\n")
	badEvents   = form("runtime_controls:\n  events: {material: %s}\n")
	badSpend    = form("runtime_controls:\n  spend:\n    %s: %s\n")
)

var rejectedFiles = []row{
	badSeconds("a number in double quotes", `"14400"`),
	badSeconds("a number in single quotes", `'14400'`),
	badSeconds("a boolean", "true"),
	badSeconds("a boolean of YAML 1.1", "off"),
	badSeconds("a negative number", "-1"),
	badSeconds("a negative zero", "-0"),
	badSeconds("a number with a plus", "+5"),
	badSeconds("not a number", ".nan"),
	badSeconds("infinity", "-.inf"),
	badSeconds("an exponent", "1e3"),
	badSeconds("a hexadecimal number", "0x10"),
	badSeconds("an octal number of YAML 1.2", "0o17"),
	badSeconds("an octal number of YAML 1.1", "017"),
	badSeconds("a number with underscores", "14_400"),
	badSeconds("a base-60 number", "4:00:00"),
	badSeconds("a date", "2026-01-02"),
	badSeconds("a Go duration", "4h"),
	badSeconds("a decimal comma", "0,5"),
	badSeconds("a point without digits after it", "5."),
	badSeconds("a point without digits before it", ".5"),
	badSeconds("digits that are not ASCII", "١٢"),
	badSeconds("finer than a nanosecond", "0.0000000001"),
	badSeconds("longer than a duration", "9223372037"),
	badSeconds("exactly the value of NoLimit", "9223372036.854775807"),
	badSeconds("far longer than a duration", strings.Repeat("9", 100)),
	badSeconds("a list", "[14400]"),
	badSeconds("a mapping", "{value: 14400}"),
	badSeconds("an empty text", `""`),
	badSeconds("a literal block of text", "|\n    14400"),
	badSeconds("a folded block of text", ">-\n    14400"),
	badSeconds("a tag on a number", "!!int 14400"),
	badSeconds("a tag on nothing", "!!null"),
	badSeconds("a tag of the host's", "!seconds 14400"),
	{"an alias for a value", "limit: &limit 60\nruntime_controls:\n  session_wall_clock_seconds: *limit\n"},
	{"a key twice", "runtime_controls:\n  session_wall_clock_seconds: 60\n  session_wall_clock_seconds: 60\n"},
	{"a key twice where the first is null", "runtime_controls:\n  warn_at:\n  warn_at: [0.5]\n"},

	badWarnings("a fraction by itself", "0.5"),
	badWarnings("fractions that are not a list", "0.5,0.8"),
	badWarnings("a fraction of one", "[1]"),
	badWarnings("a fraction of zero", "[0]"),
	badWarnings("a fraction that rounds to one", "[0.99999999999999999999]"),
	badWarnings("a percentage", "[80%]"),
	badWarnings("a fraction in quotes", `["0.8"]`),
	badWarnings("a fraction that is null", "[0.5, null]"),
	badWarnings("a fraction twice", "[0.5, 0.8, 0.50]"),
	badWarnings("a list in a list", "[[0.5]]"),
	badWarnings("a mapping of fractions", "{a: 0.5}"),
	badWarnings("more than 100 warnings", "["+strings.Repeat("0.5, ", 101)+"]"),
	{"a fraction in a line of its own", "runtime_controls:\n  warn_at:\n  - 0.5\n  - 1.5\n"},
	{"an alias for a fraction", "limit: &limit 0.5\nruntime_controls:\n  warn_at: [*limit]\n"},

	badKey("a tick shorter than the least", "max_tick_duration_minutes", "0.999999999"),
	badKey("a tick of zero", "max_tick_duration_minutes", "0"),
	badKey("a tick longer than the longest", "max_tick_duration_minutes", "60.000000001"),
	badKey("a tick that rounds to the longest", "max_tick_duration_minutes", "60.0000000000000000001"),
	badKey("a tick too long for a number", "max_tick_duration_minutes", strings.Repeat("9", 400)),
	badKey("a negative tick", "max_tick_duration_minutes", "-5"),
	badKey("a tick with a unit", "max_tick_duration_minutes", "30m"),
	badKey("a grace of zero", "tick_grace_seconds", "0"),
	badKey("a negative timeout", "idle_timeout_seconds", "-1"),

	badKey("a flag of YAML 1.1", "from_first_sign", "yes"),
	badKey("a flag in quotes", "from_first_sign", `"true"`),
	badKey("a flag that is a number", "from_first_sign", "1"),
	badKey("a flag in capitals", "from_first_sign", "True"),
	badKey("a flag in a list", "from_first_sign", "[true]"),

	badKey("ladders that are a list", "ladders", "[retry]"),
	badKey("ladders with a tag", "ladders", "!!map {idle: [retry]}"),
	badKey("ladders that are text", "ladders", "retry"),
	badLadder("a directive by itself", "retry"),
	badLadder("directives that are not a list", `"retry,cancel"`),
	badLadder("a mistyped directive", "[retri]"),
	badLadder("a directive in capitals", "[RETRY]"),
	badLadder("an unknown directive", "[restart]"),
	badLadder("a directive that is null", "[retry, ~]"),
	badLadder("a directive that is empty", `[""]`),
	badLadder("a directive in a list", "[[retry]]"),
	badLadder("a directive with a count", "[{retry: 2}]"),
	badLadder("a rung after a cancel", "[retry, cancel, retry]"),
	badLadder("a second cancel", "[cancel, cancel]"),
	badLadder("more than 100 rungs", "["+strings.Repeat("retry, ", 101)+"]"),
	{"a rung in a line of its own", "runtime_controls:\n  ladders:\n    idle:\n    - retry\n    - abort\n"},
	{"a ladder twice", "runtime_controls:\n  ladders:\n    idle: [retry]\n    idle: [wait]\n"},
	{"ladders twice", "runtime_controls:\n  ladders: {hold: [retry]}\n  ladders: {hold: [retry]}\n"},
	{"an alias for ladders", "a: &a {hold: [retry]}\nruntime_controls:\n  ladders: *a\n"},
	{"an alias for a directive", "a: &a retry\nruntime_controls:\n  ladders: {hold: [*a]}\n"},
	{"a ladder for a limit that has none", "runtime_controls:\n  ladders: {wall_clock: [retry]}\n"},
	{"a ladder under a mistyped name", "runtime_controls:\n  ladders: {no-progres: [retry]}\n"},

	badLadder("a rung that comes by itself", "[wrap_up]"),
	badKey("counts that are a number", "spend", "5"),
	badSpend("a negative count", "tokens", "-1"),
	badSpend("a part of a token", "tokens", "0.5"),
	badSpend("a count in quotes", "turns", `"5"`),
	badSpend("a count with a unit", "tokens", "5M"),
	badSpend("a count with underscores", "tokens", "1_000_000"),
	badSpend("exactly the number of NoLimit", "tokens", "9223372036854775807"),
	badSpend("far too many", "requests", strings.Repeat("9", 30)),
	badSpend("money without a currency", "cost", "5.00"),
	badSpend("money with a sign before it", "cost", "$5"),
	badSpend("money with a currency before it", "cost", "EUR 5"),
	badSpend("money with a currency in small letters", "cost", "5 eur"),
	badSpend("money without a space", "cost", "5EUR"),
	badSpend("money with a comma", "cost", "5,00 EUR"),
	badSpend("negative money", "cost", "-5 EUR"),
	badSpend("money finer than a millionth", "cost", "0.0000001 EUR"),
	badSpend("too much money", "cost", "9223372036854.775807 EUR"),
	badSpend("money in a mapping", "cost", "{amount: 5, currency: EUR}"),
	badSpend("tools that are a number", "tools", "5"),
	badSpend("tools that are a list", "tools", "[bash]"),
	badSpend("a tool with a negative number", "tools", "{bash: -1}"),
	badSpend("a tool twice", "tools", "{bash: 1, bash: 2}"),
	badSpend("a tool whose name is a number", "tools", "{404: 1}"),
	badSpend("a tool without a name", "tools", `{"": 1}`),
	badSpend("a tool with a character that cannot be seen", "tools", `{"a\u200b": 1}`),
	badSpend("a tool that is an alias", "tools", "{bash: &a 5, x: *a}"),
	badSpend("tools with a tag", "tools", "!!map {bash: 5}"),
	badSpend("warnings of counts in percent", "warn_at", "[80]"),
	badSpend("a count under a mistyped name", "tokns", "5"),
	badSpend("a count under another style of name", "max_tokens", "5"),
	{"a count outside of its block", "runtime_controls:\n  tokens: 5\n"},
	{"a tool in a line of its own", "runtime_controls:\n  spend:\n    tools:\n      bash: 5\n      search: many\n"},
	{"a reserve under a mistyped name", "runtime_controls:\n  spend: {tokens: 9, reserve: {token: 5}}\n"},
	{"a reserve of what has none", "runtime_controls:\n  spend: {errors: 9, reserve: {errors: 5}}\n"},
	{"counts outside of the block", "spend: {tokens: 5}\n"},

	badKey("events that are a list", "events", "[commit]"),
	badEvents("kinds that are not a list", "commit"),
	badEvents("a kind that is a number", "[5]"),
	badEvents("a kind that is a boolean to some", "[On]"),
	badEvents("a kind that is null", "[null]"),
	badEvents("a kind that is empty", `[""]`),
	badEvents("a kind of white space", `[" "]`),
	badEvents("a kind with white space around it", `["commit "]`),
	badEvents("a kind with a line end", `["com\nmit"]`),
	badEvents("a kind in a list", "[[commit]]"),
	badEvents("a kind with a tag", "[!!str commit]"),
	badEvents("a kind of the watchdog's own", "[runtime.watchdog.retry]"),
	badEvents("a kind twice in a list", "[commit, 'commit']"),
	badEvents("more than 1000 kinds", "["+strings.Repeat("a, ", 1001)+"]"),
	{"a kind in two lists", "runtime_controls:\n  events:\n    ignored: [tick]\n    activity: [token, tick]\n"},
	{"a list of kinds under a mistyped name", "runtime_controls:\n  events: {materials: [commit]}\n"},
	{"a mistyped class", "runtime_controls:\n  events: {unknown: ignore}\n"},
	{"an unknown class", "runtime_controls:\n  events: {unknown: heartbeat}\n"},
	{"a class in a list", "runtime_controls:\n  events: {unknown: [activity]}\n"},
	{"events outside of the block", "events:\n  material: [commit]\n"},
	{"ladders outside of the block", "agents: {}\nladders: {idle: [retry]}\n"},

	{"a mistyped key", "runtime_controls:\n  session_wallclock_seconds: 60\n"},
	{"an unknown key in another style", "runtime_controls:\n  Warn-At: [0.5]\n"},
	{"an unknown key that is unlike any of ours", "runtime_controls:\n  budget: 60\n"},
	{"an unknown key that is null", "runtime_controls:\n  budget:\n"},
	{"an unknown key too long to repeat", "runtime_controls:\n  " + strings.Repeat("k", 100) + ": 1\n"},
	{"an unknown key with a control character", "runtime_controls:\n  \"a\\e[2Jb\": 1\n"},
	{"an empty key", "runtime_controls:\n  \"\": 1\n"},
	{"a key that is a number", "runtime_controls:\n  5: 1\n"},
	{"a key that is a list", "runtime_controls:\n  ? [a]\n  : 1\n"},
	{"a merge key in the block", "base: &base {warn_at: [0.5]}\nruntime_controls:\n  <<: *base\n"},

	{"a block that is a list", "runtime_controls:\n- session_wall_clock_seconds: 60\n"},
	{"a block that is a number", "runtime_controls: 14400\n"},
	{"a block that is an empty text", `runtime_controls: ""`},
	{"a block that is an alias", "base: &base {warn_at: [0.5]}\nruntime_controls: *base\n"},
	{"a block with a tag", "runtime_controls: !!set {warn_at: [0.5]}\n"},
	{"a block twice", "runtime_controls: {}\nagents: {}\nruntime_controls: {}\n"},
	{"a block under a mistyped name", "agents: {}\nRuntime-Control: {warn_at: [0.5]}\n"},
	{"a key outside of the block", "session_wall_clock_seconds: 60\n"},
	{"a block that a merge brings in",
		"base: &base {runtime_controls: {warn_at: [0.5]}}\nmore: &more\n  <<: *base\n<<: [*more]\n"},

	{"a file that is a list", "- runtime_controls\n"},
	{"a file that is a number", "\n14400\n"},
	{"several documents", "runtime_controls: {}\n---\nruntime_controls: {}\n"},
	{"a document that ends and another that is empty", "runtime_controls: {}\n...\n---\n"},
	{"broken YAML: a list that is not closed", "runtime_controls:\n  warn_at: [0.5\nagents: {}\n"},
	{"broken YAML: a tab", "runtime_controls:\n\twarn_at: [0.5]\n"},
	{"broken YAML: a colon too many", "runtime_controls: warn_at: [0.5]\n"},
	{"broken YAML: an unknown anchor", "runtime_controls: *base\n"},
	{"broken YAML: an unknown anchor with a long name", "runtime_controls: *" + strings.Repeat("n", 1000) + "\n"},
	{"a control character", "runtime_controls:\n  \x01\n"},
	{"a byte that is not UTF-8", "runtime_controls:\n  warn_at: [0.5] # \xff\n"},
	{"UTF-16", "\xff\xfer\x00u\x00n\x00"},
	{"a file that is too large", strings.Repeat("#", 1<<20+1)},
}

var (
	badStall   = form("stall:\n  %s: %s\n")
	badLength  = form("stall:\n  no_output_timeout: %s\n")
	badProbe   = form("stall:\n  probe:\n    command: [x]\n    %s: %s\n")
	badCommand = form("stall:\n  probe:\n    command: %s\n")
	badAlsoEnd = form("stall:\n  no_output_timeout: 5m\n  also_end:\n    %s: %s\n")
	badPattern = form("stall:\n  terminal_patterns: %s\n")
	badPrefix  = form("stall:\n  fingerprint_prefix: %s\n")
	badSweep   = form("sweep:\n  %s: %s\n")
)

var rejectedStall = []row{
	badLength("a number without a unit", "300"),
	badLength("a decimal number without a unit", "0.5"),
	badLength("a zero with decimals", "0.0"),
	badLength("a number without a unit in quotes", `"300"`),
	badLength("zero in quotes", `"0"`),
	badLength("a negative length", "-5m"),
	badLength("a negative number", "-5"),
	badLength("a negative zero", "-0"),
	badLength("a length with a plus", "+5m"),
	badLength("a sign by itself", `"-"`),
	badLength("a unit in capitals", "5M"),
	badLength("a unit that is a word", "5min"),
	badLength("a unit of days", "1d"),
	badLength("a unit by itself", "m"),
	badLength("white space before the unit", "5 m"),
	badLength("white space around a length", `" 5m"`),
	badLength("the smaller unit first", "30m1h"),
	badLength("a unit twice", "1h1h"),
	badLength("a number after the last unit", "1h30"),
	badLength("a point without digits after it", "5.s"),
	badLength("a point without digits before it", ".5s"),
	badLength("a base-60 number", "0:05:00"),
	badLength("an ISO duration", "PT5M"),
	badLength("an exponent", "1e3s"),
	badLength("finer than a nanosecond", "0.0000000001s"),
	badLength("a fraction of a nanosecond", "0.5ns"),
	badLength("longer than a duration", "2562048h"),
	badLength("exactly the value of NoLimit", "2562047h47m16s854ms775us807ns"),
	badLength("far longer than a duration", strings.Repeat("9", 100)+"h"),
	badLength("a boolean of YAML 1.1", "off"),
	badLength("a word", "never"),
	badLength("a list", "[5m]"),
	badLength("a mapping", "{minutes: 5}"),
	badLength("a tag", "!!str 5m"),
	badLength("a block of text", "|\n    5m"),
	badLength("an empty text", `""`),
	badStall("a signal that is none", "first_signal", "SIGNONE"),
	badStall("a signal that stops", "first_signal", "SIGSTOP"),
	badStall("a signal as a boolean", "first_signal", "false"),
	badStall("no number of a signal", "first_signal", "1000"),
	badStall("a negative grace", "interrupt_grace", "-1s"),
	badStall("the grace of none in nanoseconds", "terminate_grace", "-1ns"),
	badStall("a grace without a unit", "terminate_grace", "20"),
	badProbe("an interval of zero", "interval", "0"),
	badProbe("an interval of zero with a unit", "interval", "0s"),
	badProbe("a probe without a timeout", "timeout", "0"),
	badProbe("a timeout without a unit", "timeout", "5"),

	badProbe("a flag of YAML 1.1", "require_zero_exit", "no"),
	badProbe("a mistyped meaning of errors", "on_probe_error", "ignored"),
	badProbe("an unknown meaning of errors", "on_probe_error", "interrupt"),
	badProbe("no error for a threshold", "probe_error_threshold", "0"),
	badProbe("a negative threshold", "probe_error_threshold", "-3"),
	badProbe("a threshold in quotes", "probe_error_threshold", `"3"`),
	badProbe("a threshold that is not whole", "probe_error_threshold", "2.0"),
	badProbe("a threshold that is never reached", "probe_error_threshold", "1000001"),
	badProbe("a threshold too large for an integer", "probe_error_threshold", strings.Repeat("9", 100)),
	badStall("a threshold of one probe", "stall_threshold", "1"),
	badStall("a threshold of none", "stall_threshold", "0"),
	badStall("a threshold with a unit", "stall_threshold", "3x"),

	badStall("a mistyped output", "activity_source", "Stdout"),
	badStall("an unknown output", "activity_source", "both"),
	badStall("a mistyped action", "on_stall", "interrupts"),
	badStall("an unknown action", "on_terminal", "kill"),
	badStall("an action in a list", "on_stall", "[fail]"),
	badStall("background processes that are kept by a word", "keep_background", "all"),

	badCommand("a command that is a number", "5"),
	badCommand("a command that is a boolean to some", "yes"),
	badCommand("a command of white space", `" "`),
	badCommand("a command that is a mapping", "{run: kubectl}"),
	badCommand("a command that is an empty block of text", "|\n"),
	badCommand("a command with a tag", "!!seq [x]"),
	badCommand("a command of nothing", "[]"),
	badCommand("a program that is empty", `["", x]`),
	badCommand("a program that is null", "[null]"),
	badCommand("an argument that is null", "[x, ~]"),
	badCommand("an argument that is a number", "[sleep, 5]"),
	badCommand("an argument that is a negative number", "[x, -n, -1]"),
	badCommand("an argument that is a boolean to some", "[x, On]"),
	badCommand("an argument that is infinity", "[x, -.inf]"),
	badCommand("an argument that is a time to some", "[x, 12:30:00]"),
	badCommand("an argument that is a list", "[x, [y]]"),
	badCommand("an argument that is a mapping", "[x, {a: b}]"),
	badCommand("an argument with a tag", "[x, !!str 5]"),
	badCommand("an argument with a NUL", `[x, "a\0b"]`),
	badCommand("more than 1000 arguments", "["+strings.Repeat("x, ", 1001)+"]"),
	{"an argument that is wrong in a line of its own", "stall:\n  probe:\n    command:\n    - sleep\n    - 5\n"},
	{"an alias for an argument", "a: &a x\nstall:\n  probe: {command: [x, *a]}\n"},
	{"an alias for a command", "a: &a [x]\nstall:\n  probe: {command: *a}\n"},
	{"a command twice", "stall:\n  probe:\n    command: [x]\n    command: y\n"},
	{"a probe that is its command", "stall:\n  probe: kubectl get\n"},
	{"a command under a mistyped name", "stall:\n  probe:\n    comand: kubectl get\n"},
	{"a command outside of the probe", "stall:\n  command: kubectl get\n"},

	badAlsoEnd("an end elsewhere that is a number", "command", "5"),
	badAlsoEnd("an end elsewhere of nothing", "command", "[]"),
	badAlsoEnd("an end elsewhere without a program", "command", `["", x]`),
	badAlsoEnd("an end elsewhere without a timeout", "timeout", "0"),
	badAlsoEnd("an end elsewhere with a negative timeout", "timeout", "-5s"),
	badAlsoEnd("an end elsewhere under a mistyped name", "comand", "docker rm"),
	{"an end elsewhere that is its command", "stall:\n  also_end: docker rm\n"},
	{"an end elsewhere outside of the block", "also_end:\n  command: [x]\n"},
	{"an end elsewhere in a sentinel under a mistyped name", "stal:\n  also_end: {command: [x]}\n"},

	badPattern("a pattern that is not in a list", "fatal"),
	badPattern("a pattern that is not closed", "['(a']"),
	badPattern("a pattern that repeats nothing", `["*"]`),
	badPattern("a pattern that looks back", `['(?<=a)b']`),
	badPattern("a pattern that is empty", `[""]`),
	badPattern("a pattern that is null", "[~]"),
	badPattern("a pattern that is a number", "[404]"),
	badPattern("a pattern that YAML reads as a mapping", "[fatal: x]"),
	badPattern("a pattern that YAML reads as a list", "[[a-z]]"),
	badPattern("a pattern that every line matches", "['.*']"),
	badPattern("a pattern with an empty alternative", "['error|']"),
	badPattern("a pattern twice", "[a, b, 'a']"),
	badPattern("more than 100 patterns", "["+strings.Repeat("x, ", 101)+"]"),
	{"a pattern that is wrong in a line of its own", "stall:\n  terminal_patterns:\n  - fatal\n  - 'a['\n"},

	badPrefix("a prefix with a space", "ci build"),
	badPrefix("a prefix that begins with a slash", "/ci"),
	badPrefix("a prefix that ends with a slash", "ci/"),
	badPrefix("a prefix of a slash", `"/"`),
	badPrefix("a prefix with a letter that is not ASCII", "größe"),
	badPrefix("a prefix with a line end", `"ci\n"`),
	badPrefix("a prefix that is empty", `""`),
	badPrefix("a prefix that is a number", "2026"),
	badPrefix("a prefix longer than a fingerprint", strings.Repeat("x", 101)),
	badPrefix("a prefix in a list", "[ci]"),

	{"a probe that is a list", "stall:\n  probe: [x]\n"},
	{"a sentinel that is a length", "stall: 5m\n"},
	{"a sentinel twice", "stall: {}\nstall: {}\n"},
	{"a mistyped key", "stall:\n  no_output_timout: 5m\n"},
	{"an unknown key that is unlike any of ours", "stall:\n  tail: 5\n"},
	{"a key of the probe outside of its block", "stall:\n  interval: 5s\n"},
	{"a key in seconds", "stall:\n  no_output_timeout_seconds: 5\n"},
	{"a sentinel under a mistyped name", "stalls:\n  no_output_timeout: 5m\n"},
	{"a sentinel of a probe under a mistyped name", "Stall:\n  probe: {on_probe_error: stall}\n"},
	{"a key of the sentinel outside of the block", "agents: {}\nno_output_timeout: 5m\n"},
	{"a probe outside of the block", "probe:\n  command: [x]\n  on_probe_error: stall\n"},
	{"a sentinel that a merge brings in", "base: &base {stall: {no_output_timeout: 5m}}\n<<: *base\n"},
}

var rejectedSweep = []row{
	badSweep("an interval of zero", "interval", "0"),
	badSweep("an interval without a unit", "interval", "300000"),
	badSweep("a negative interval", "interval", "-5m"),
	badSweep("a negative threshold", "stalled_threshold", "-1ns"),
	badSweep("a threshold that is a word", "stalled_threshold", "never"),
	badSweep("a minimum age of none in nanoseconds", "min_age", "-1ns"),
	badSweep("a delay without a unit", "startup_delay", "30"),
	badSweep("a delay in quotes without a unit", "startup_delay", `"0"`),
	badSweep("no cancel at all", "max_cancellations_per_run", "0"),
	badSweep("a negative number of cancels", "max_cancellations_per_run", "-1"),
	badSweep("half a cancel", "max_cancellations_per_run", "0.5"),
	badSweep("more than 1000000 cancels", "max_cancellations_per_run", "1000001"),
	badSweep("a negative rate of cancels", "max_cancellations_per_minute", "-1"),
	badSweep("a rate of cancels with decimals", "max_cancellations_per_minute", "10.0"),
	badSweep("a rate of more than 1000000 cancels", "max_cancellations_per_minute", "1000001"),
	badSweep("a rate of cancels with a unit", "max_cancellations_per_minute", "10/m"),
	badSweep("a negative grace", "grace", "-1m"),
	badSweep("a hook without time", "stop_timeout", "0s"),
	badSweep("a dry run of a number", "dry_run", "1"),
	badSweep("a negative number of resumes", "max_resumes", "-1"),
	badSweep("a resume without a try", "resume_tries", "0"),
	badSweep("half an alert", "alert_count", "0.5"),
	badSweep("an alert of a number", "alert_within", "10"),
	badSweep("a keeper that is a text", "keeper", "worker-7"),
	badSweep("a flag of YAML 1.1", "enabled", "yes"),
	badSweep("a flag in quotes", "enabled", `"true"`),
	{"a sweeper that is a flag", "sweep: true\n"},
	{"a sweeper twice", "sweep: {}\nsweep: {}\n"},
	{"a mistyped key", "sweep:\n  stalled_treshold: 5m\n"},
	{"an unknown key that is unlike any of ours", "sweep:\n  table: sessions\n"},
	{"a key of the keeper outside of its block", "sweep:\n  pace: 5s\n"},
	{"a key in milliseconds", "sweep:\n  interval_ms: 5\n"},
	{"a sweeper under a mistyped name", "sweeps:\n  stalled_threshold: 5m\n"},
	{"a key of the sweeper outside of the block", "stalled_threshold: 5m\n"},
	{"a cap of cancels outside of the block", "max_cancellations_per_run: 5\n"},
	{"a rate of cancels outside of the block", "max_cancellations_per_minute: 5\n"},
	{"a key of the lease outside of its block", "sweep:\n  promise: 5s\n"},
	{"a sweeper that a merge brings in", "base: &base {sweep: {interval: 5m}}\n<<: *base\n"},
}

var rejectedKeeper = []row{
	badSweep("a threshold of zero", "keeper: {threshold", "0}"),
	badSweep("a pace of zero", "keeper: {pace", "0s}"),
	badSweep("a promise of zero", "keeper: {promise", "0}"),
	badSweep("a promise shorter than the shortest", "keeper: {promise", "999ms}"),
	badSweep("a promise longer than the longest", "keeper: {promise", "5m1ms}"),
	badSweep("a promise without a unit", "keeper: {promise", "10}"),
	badSweep("a poll without a unit", "keeper: {poll", "2}"),
	badSweep("a host that some read as a number", "keeper: {host", "7}"),
	badSweep("a host without a name", "keeper: {host", "''}"),
	badSweep("a host with white space", "keeper: {host", "' a'}"),
	badSweep("a host with a character that cannot be seen", "keeper: {host", "\"a\\tb\"}"),
	badSweep("a host of several", "keeper: {host", "[a, b]}"),
	badSweep("a host with a long name", "keeper: {host", strings.Repeat("é", 256)+"}"),
	badSweep("a mistyped key", "keeper: {pase", "2s}"),
}
