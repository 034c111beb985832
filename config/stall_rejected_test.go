package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/config"
)

// badStall writes a value for a stall key.
func badStall(sentence, key, written, value string) rejected {
	return rejected{sentence, "stall:\n  " + key + ": " + written + "\n", 2, "stall." + key, value}
}

func badLength(sentence, written, value string) rejected {
	return badStall(sentence, "no_output_timeout", written, value)
}

// badProbe writes a value for a key of a probe that has a command.
func badProbe(sentence, key, written, value string) rejected {
	text := "stall:\n  probe:\n    command: [x]\n    " + key + ": " + written + "\n"
	return rejected{sentence, text, 4, "stall.probe." + key, value}
}

func badCommand(sentence, written, value string) rejected {
	return rejected{sentence, "stall:\n  probe:\n    command: " + written + "\n", 3, "stall.probe.command", value}
}

// badAlsoEnd writes a value for a key of an end elsewhere.
func badAlsoEnd(sentence, key, written, value string) rejected {
	text := "stall:\n  no_output_timeout: 5m\n  also_end:\n    " + key + ": " + written + "\n"
	return rejected{sentence, text, 4, "stall.also_end." + key, value}
}

func badPattern(sentence, written, value string) rejected {
	return badStall(sentence, "terminal_patterns", written, value)
}

func badPrefix(sentence, written, value string) rejected {
	return badStall(sentence, "fingerprint_prefix", written, value)
}

var rejectedStall = []rejected{
	badLength("a number without a unit", "300", "300"),
	badLength("a decimal number without a unit", "0.5", "0.5"),
	badLength("a zero with decimals", "0.0", "0.0"),
	badLength("a number without a unit in quotes", `"300"`, `"300"`),
	badLength("zero in quotes", `"0"`, `"0"`),
	badLength("a negative length", "-5m", "-5m"),
	badLength("a negative number", "-5", "-5"),
	badLength("a negative zero", "-0", "-0"),
	badLength("a length with a plus", "+5m", "+5m"),
	badLength("a sign by itself", `"-"`, `"-"`),
	badLength("a unit in capitals", "5M", "5M"),
	badLength("a unit that is a word", "5min", "5min"),
	badLength("a unit of days", "1d", "1d"),
	badLength("a unit by itself", "m", "m"),
	badLength("white space before the unit", "5 m", "5 m"),
	badLength("white space around a length", `" 5m"`, `" 5m"`),
	badLength("the smaller unit first", "30m1h", "30m1h"),
	badLength("a unit twice", "1h1h", "1h1h"),
	badLength("a number after the last unit", "1h30", "1h30"),
	badLength("a point without digits after it", "5.s", "5.s"),
	badLength("a point without digits before it", ".5s", ".5s"),
	badLength("a base-60 number", "0:05:00", "0:05:00"),
	badLength("an ISO duration", "PT5M", "PT5M"),
	badLength("an exponent", "1e3s", "1e3s"),
	badLength("finer than a nanosecond", "0.0000000001s", "0.0000000001s"),
	badLength("a fraction of a nanosecond", "0.5ns", "0.5ns"),
	badLength("longer than a duration", "2562048h", "2562048h"),
	badLength(
		"exactly the value of NoLimit", "2562047h47m16s854ms775us807ns", "2562047h47m16s854ms775us807ns",
	),
	badLength("far longer than a duration", strings.Repeat("9", 100)+"h", strings.Repeat("9", 60)+"…"),
	badLength("a boolean of YAML 1.1", "off", "off"),
	badLength("a word", "never", "never"),
	badLength("a list", "[5m]", "[…]"),
	badLength("a mapping", "{minutes: 5}", "{…}"),
	badLength("a tag", "!!str 5m", "5m"),
	badLength("a block of text", "|\n    5m", `"5m\n"`),
	badLength("an empty text", `""`, `""`),
	badStall("a signal that is none", "first_signal", "SIGNONE", "SIGNONE"),
	badStall("a signal that stops", "first_signal", "SIGSTOP", "SIGSTOP"),
	badStall("a signal as a boolean", "first_signal", "false", "false"),
	badStall("no number of a signal", "first_signal", "1000", "1000"),
	badStall("a negative grace", "interrupt_grace", "-1s", "-1s"),
	badStall("the grace of none in nanoseconds", "terminate_grace", "-1ns", "-1ns"),
	badStall("a grace without a unit", "terminate_grace", "20", "20"),
	badProbe("an interval of zero", "interval", "0", "0"),
	badProbe("an interval of zero with a unit", "interval", "0s", "0s"),
	badProbe("a probe without a timeout", "timeout", "0", "0"),
	badProbe("a timeout without a unit", "timeout", "5", "5"),

	badProbe("a flag of YAML 1.1", "require_zero_exit", "no", "no"),
	badProbe("a mistyped meaning of errors", "on_probe_error", "ignored", "ignored"),
	badProbe("an unknown meaning of errors", "on_probe_error", "interrupt", "interrupt"),
	badProbe("no error for a threshold", "probe_error_threshold", "0", "0"),
	badProbe("a negative threshold", "probe_error_threshold", "-3", "-3"),
	badProbe("a threshold in quotes", "probe_error_threshold", `"3"`, `"3"`),
	badProbe("a threshold that is not whole", "probe_error_threshold", "2.0", "2.0"),
	badProbe("a threshold that is never reached", "probe_error_threshold", "1000001", "1000001"),
	badProbe(
		"a threshold too large for an integer", "probe_error_threshold",
		strings.Repeat("9", 100), strings.Repeat("9", 60)+"…",
	),
	badStall("a threshold of one probe", "stall_threshold", "1", "1"),
	badStall("a threshold of none", "stall_threshold", "0", "0"),
	badStall("a threshold with a unit", "stall_threshold", "3x", "3x"),

	badStall("a mistyped output", "activity_source", "Stdout", "Stdout"),
	badStall("an unknown output", "activity_source", "both", "both"),
	badStall("a mistyped action", "on_stall", "interrupts", "interrupts"),
	badStall("an unknown action", "on_terminal", "kill", "kill"),
	badStall("an action in a list", "on_stall", "[fail]", "[…]"),
	badStall("background processes that are kept by a word", "keep_background", "all", "all"),

	badCommand("a command that is a number", "5", "…"),
	badCommand("a command that is a boolean to some", "yes", "…"),
	badCommand("a command of white space", `" "`, "…"),
	badCommand("a command that is a mapping", "{run: kubectl}", "{…}"),
	badCommand("a command that is an empty block of text", "|\n", "…"),
	badCommand("a command with a tag", "!!seq [x]", "[…]"),
	badCommand("a command of nothing", "[]", "[…]"),
	badCommand("a program that is empty", `["", x]`, "item 1"),
	badCommand("a program that is null", "[null]", "item 1"),
	badCommand("an argument that is null", "[x, ~]", "item 2"),
	badCommand("an argument that is a number", "[sleep, 5]", "item 2"),
	badCommand("an argument that is a negative number", "[x, -n, -1]", "item 3"),
	badCommand("an argument that is a boolean to some", "[x, On]", "item 2"),
	badCommand("an argument that is infinity", "[x, -.inf]", "item 2"),
	badCommand("an argument that is a time to some", "[x, 12:30:00]", "item 2"),
	badCommand("an argument that is a list", "[x, [y]]", "item 2"),
	badCommand("an argument that is a mapping", "[x, {a: b}]", "item 2"),
	badCommand("an argument with a tag", "[x, !!str 5]", "item 2"),
	badCommand("an argument with a NUL", `[x, "a\0b"]`, "item 2"),
	badCommand("more than 1000 arguments", "["+strings.Repeat("x, ", 1001)+"]", "[…]"),
	{
		"an argument that is wrong in a line of its own", "stall:\n  probe:\n    command:\n    - sleep\n    - 5\n", 5,
		"stall.probe.command", "item 2",
	},
	{"an alias for an argument", "a: &a x\nstall:\n  probe: {command: [x, *a]}\n", 3, "stall.probe.command", "item 2"},
	{"an alias for a command", "a: &a [x]\nstall:\n  probe: {command: *a}\n", 3, "stall.probe.command", "*…"},
	{"a command twice", "stall:\n  probe:\n    command: [x]\n    command: y\n", 4, "stall.probe.command", "…"},
	{"a probe that is its command", "stall:\n  probe: kubectl get\n", 2, "stall.probe", "…"},
	{
		"a command under a mistyped name", "stall:\n  probe:\n    comand: kubectl get\n", 3,
		"stall.probe.comand", "…",
	},
	{"a command outside of the probe", "stall:\n  command: kubectl get\n", 2, "stall.command", "…"},

	badAlsoEnd("an end elsewhere that is a number", "command", "5", "…"),
	badAlsoEnd("an end elsewhere of nothing", "command", "[]", "[…]"),
	badAlsoEnd("an end elsewhere without a program", "command", `["", x]`, "item 1"),
	badAlsoEnd("an end elsewhere without a timeout", "timeout", "0", "0"),
	badAlsoEnd("an end elsewhere with a negative timeout", "timeout", "-5s", "-5s"),
	badAlsoEnd("an end elsewhere under a mistyped name", "comand", "docker rm", "…"),
	{"an end elsewhere that is its command", "stall:\n  also_end: docker rm\n", 2, "stall.also_end", "…"},
	{"an end elsewhere outside of the block", "also_end:\n  command: [x]\n", 1, "", ""},
	{"an end elsewhere in a sentinel under a mistyped name", "stal:\n  also_end: {command: [x]}\n", 1, "", ""},

	badPattern("a pattern that is not in a list", "fatal", "fatal"),
	badPattern("a pattern that is not closed", "['(a']", `"(a"`),
	badPattern("a pattern that repeats nothing", `["*"]`, `"*"`),
	badPattern("a pattern that looks back", `['(?<=a)b']`, `"(?<=a)b"`),
	badPattern("a pattern that is empty", `[""]`, `""`),
	badPattern("a pattern that is null", "[~]", "~"),
	badPattern("a pattern that is a number", "[404]", "404"),
	badPattern("a pattern that YAML reads as a mapping", "[fatal: x]", "{…}"),
	badPattern("a pattern that YAML reads as a list", "[[a-z]]", "[…]"),
	badPattern("a pattern that every line matches", "['.*']", `".*"`),
	badPattern("a pattern with an empty alternative", "['error|']", `"error|"`),
	badPattern("a pattern twice", "[a, b, 'a']", `"a"`),
	badPattern("more than 100 patterns", "["+strings.Repeat("x, ", 101)+"]", "[…]"),
	{
		"a pattern that is wrong in a line of its own", "stall:\n  terminal_patterns:\n  - fatal\n  - 'a['\n", 4,
		"stall.terminal_patterns", `"a["`,
	},

	badPrefix("a prefix with a space", "ci build", "ci build"),
	badPrefix("a prefix that begins with a slash", "/ci", "/ci"),
	badPrefix("a prefix that ends with a slash", "ci/", "ci/"),
	badPrefix("a prefix of a slash", `"/"`, `"/"`),
	badPrefix("a prefix with a letter that is not ASCII", "größe", "größe"),
	badPrefix("a prefix with a line end", `"ci\n"`, `"ci\n"`),
	badPrefix("a prefix that is empty", `""`, `""`),
	badPrefix("a prefix that is a number", "2026", "2026"),
	badPrefix("a prefix longer than a fingerprint", strings.Repeat("x", 101), strings.Repeat("x", 60)+"…"),
	badPrefix("a prefix in a list", "[ci]", "[…]"),

	{"a probe that is a list", "stall:\n  probe: [x]\n", 2, "stall.probe", "[…]"},
	{"a sentinel that is a length", "stall: 5m\n", 1, "stall", "…"},
	{"a sentinel twice", "stall: {}\nstall: {}\n", 2, "stall", "{…}"},
	{"a mistyped key", "stall:\n  no_output_timout: 5m\n", 2, "stall.no_output_timout", "…"},
	{"an unknown key that is unlike any of ours", "stall:\n  tail: 5\n", 2, "stall.tail", "…"},
	{"a key of the probe outside of its block", "stall:\n  interval: 5s\n", 2, "stall.interval", "…"},
	{"a key in seconds", "stall:\n  no_output_timeout_seconds: 5\n", 2, "stall.no_output_timeout_seconds", "…"},
	{"a sentinel under a mistyped name", "stalls:\n  no_output_timeout: 5m\n", 1, "", ""},
	{"a sentinel of a probe under a mistyped name", "Stall:\n  probe: {on_probe_error: stall}\n", 1, "", ""},
	{"a key of the sentinel outside of the block", "agents: {}\nno_output_timeout: 5m\n", 2, "", ""},
	{"a probe outside of the block", "probe:\n  command: [x]\n  on_probe_error: stall\n", 1, "", ""},
	{"a sentinel that a merge brings in", "base: &base {stall: {no_output_timeout: 5m}}\n<<: *base\n", 2, "", ""},
}

func TestRejectedStallFiles(t *testing.T) {
	var all strings.Builder
	for _, test := range rejectedStall {
		t.Run(test.sentence, func(t *testing.T) {
			c, err := config.Parse(file, []byte(test.text), config.NoEnvironment)
			require.Nil(t, c)
			fault := only(t, err)
			require.Equal(t, test.line, fault.Line)
			require.Equal(t, test.key, fault.Key)
			require.Equal(t, test.value, fault.Value)
			fmt.Fprintf(&all, "%s:\n\t%v\n", test.sentence, err)
		})
	}
	golden(t, "rejected_stall.golden", all.String())
}

func TestRejectedStallVariables(t *testing.T) {
	const noOutput = "WATCHDOG_STALL_NO_OUTPUT_TIMEOUT"
	var all strings.Builder
	for _, test := range []struct{ sentence, variable, text, value string }{
		{"a length without a unit", noOutput, "300", `"300"`},
		{"a length in quotes", noOutput, `"5m"`, `"\"5m\""`},
		{"a length with a space", noOutput, "5m ", `"5m "`},
		{"a negative length", noOutput, "-5m", `"-5m"`},
		{"a length that is off", noOutput, "off", `"off"`},
		{"an interval of zero", "WATCHDOG_STALL_PROBE_INTERVAL", "0", `"0"`},
		{"an end elsewhere without a timeout", "WATCHDOG_STALL_ALSO_END_TIMEOUT", "0", `"0"`},
		{"a threshold of one probe", "WATCHDOG_STALL_STALL_THRESHOLD", "1", `"1"`},
		{"a threshold with a sign", "WATCHDOG_STALL_PROBE_PROBE_ERROR_THRESHOLD", "+3", `"+3"`},
		{"an unknown output", "WATCHDOG_STALL_ACTIVITY_SOURCE", "all", `"all"`},
		{"an action in capitals", "WATCHDOG_STALL_ON_STALL", "FAIL", `"FAIL"`},
		{"a flag of a number", "WATCHDOG_STALL_KEEP_BACKGROUND", "1", `"1"`},
		{"a prefix that ends with a slash", "WATCHDOG_STALL_FINGERPRINT_PREFIX", "ci/", `"ci/"`},
	} {
		t.Run(test.sentence, func(t *testing.T) {
			c, err := config.Load("", environment(variables{test.variable: test.text}))
			require.Nil(t, c)
			fault := only(t, err)
			require.Equal(t, test.variable, fault.Variable)
			require.Equal(t, test.value, fault.Value)
			fmt.Fprintf(&all, "%s:\n\t%v\n", test.sentence, err)
		})
	}
	golden(t, "rejected_stall_variables.golden", all.String())
}

// TestArgumentsHidden searches errors and the printed limits for an argument: it can hold a secret.
func TestArgumentsHidden(t *testing.T) {
	const canary = "canary-5f2c"
	for sentence, text := range map[string]string{
		"a command that is right":         "stall: {probe: {command: [curl, -H, " + canary + "]}}",
		"a command that is one text":      "stall: {probe: {command: curl " + canary + "}}",
		"a command in quotes":             "stall: {probe: {command: 'curl " + canary + "'}}",
		"a command that is a block":       "stall:\n  probe:\n    command: |\n      curl " + canary + "\n",
		"a command with a tag":            "stall: {probe: {command: !!str " + canary + "}}",
		"an argument with a tag":          "stall: {probe: {command: [curl, !!str " + canary + "]}}",
		"an argument that is a block":     "stall:\n  probe:\n    command:\n    - curl\n    - |\n      " + canary + "\n",
		"an argument with a NUL":          "stall: {probe: {command: [curl, \"" + canary + "\\0\"]}}",
		"an argument that is in a list":   "stall: {probe: {command: [curl, [" + canary + "]]}}",
		"a second command":                "stall:\n  probe:\n    command: [x]\n    command: " + canary + "\n",
		"a probe that is its command":     "stall: {probe: curl " + canary + "}",
		"a sentinel that is a command":    "stall: curl " + canary,
		"a probe that is a block of text": "stall:\n  probe: |\n    curl " + canary + "\n",
		"a mistyped command":              "stall: {probe: {commando: curl " + canary + "}}",
		"a command that is called run":    "stall: {probe: {run: curl " + canary + "}}",
		"a command beside the probe":      "stall: {command: curl " + canary + "}",
		"a mistyped probe":                "stall: {prob: curl " + canary + "}",
		"an argument that is no number":   "stall: {probe: {command: [curl, !!int " + canary + "]}}",
		"an argument that is an alias":    "a: &" + canary + " x\nstall: {probe: {command: [curl, *" + canary + "]}}",
		"an alias of nothing":             "stall: {probe: {command: [ls, *" + canary + "]}}",
		"a command that is an alias":      "a: &" + canary + " [x]\nstall: {probe: {command: *" + canary + "}}",
		"a probe that is an alias":        "a: &" + canary + " {}\nstall: {probe: *" + canary + "}",
		"a second command, an alias":      "a: &" + canary + " x\nstall: {probe: {command: [x], command: *" + canary + "}}",
		"an end elsewhere":                "stall: {no_output_timeout: 5m, also_end: {command: [curl, " + canary + "]}}",
		"an end elsewhere of one text":    "stall: {no_output_timeout: 5m, also_end: {command: curl " + canary + "}}",
		"an end elsewhere with a NUL":     "stall: {also_end: {command: [curl, \"" + canary + "\\0\"]}}",
		"an end elsewhere, mistyped":      "stall: {also_end: {commando: curl " + canary + "}}",
		"an end elsewhere is its command": "stall: {also_end: curl " + canary + "}",
		"a mistyped end elsewhere":        "stall: {also_ends: curl " + canary + "}",
		"settings that contradict it":     "stall: {probe: {command: [curl, " + canary + "], probe_error_threshold: 3}}",
	} {
		t.Run(sentence, func(t *testing.T) {
			c, err := config.Parse(file, []byte(text), config.NoEnvironment)
			if err != nil {
				require.NotContains(t, err.Error(), canary)
				require.NotContains(t, fmt.Sprintf("%+v", *only(t, err)), canary)
				return
			}
			require.NotContains(t, c.String(), canary)
		})
	}
}

// TestAliasBomb expects one short error, soon, for a command of aliases of aliases.
func TestAliasBomb(t *testing.T) {
	text := "a0: &a0 [canary-5f2c, canary-5f2c]\n"
	for i := range 40 {
		text += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), i)
	}
	_, err := config.Parse(file, []byte(text+"stall: {probe: {command: [curl, *a40]}}\n"), config.NoEnvironment)
	fault := only(t, err)
	require.Equal(t, "item 2", fault.Value)
	require.NotContains(t, err.Error(), "canary")
	require.NotContains(t, err.Error(), "a40")
}
