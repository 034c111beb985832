package config_test

import "strings"

const file = "limits.yaml"

// A rejected text has one error. The golden file has the error's text.
type rejected struct {
	sentence string
	text     string
	line     int
	key      string
	value    string
}

const wallClockKey = "runtime_controls.session_wall_clock_seconds"

// badSeconds writes a value for a number of seconds.
func badSeconds(sentence, written, value string) rejected {
	return rejected{sentence, "runtime_controls:\n  session_wall_clock_seconds: " + written + "\n", 2, wallClockKey, value}
}

// badWarnings writes a value for a list of fractions.
func badWarnings(sentence, written, value string) rejected {
	return rejected{sentence, "runtime_controls:\n  warn_at: " + written + "\n", 2, "runtime_controls.warn_at", value}
}

// badKey writes a value for a key.
func badKey(sentence, key, written, value string) rejected {
	return rejected{sentence, "runtime_controls:\n  " + key + ": " + written + "\n", 2, "runtime_controls." + key, value}
}

// badLadder writes a value for a list of directives, for a limit that is on.
func badLadder(sentence, written, value string) rejected {
	text := "runtime_controls:\n  ladders: {hold: " + written + "}\n"
	return rejected{sentence, text, 2, "runtime_controls.ladders.hold", value}
}

// badEvents writes a value for a list of kinds.
func badEvents(sentence, written, value string) rejected {
	text := "runtime_controls:\n  events: {material: " + written + "}\n"
	return rejected{sentence, text, 2, "runtime_controls.events.material", value}
}

// badSpend writes a value for a counted limit.
func badSpend(sentence, key, written, value string) rejected {
	text := "runtime_controls:\n  spend:\n    " + key + ": " + written + "\n"
	return rejected{sentence, text, 3, "runtime_controls.spend." + key, value}
}

// badLoop writes a value for a setting of loops.
func badLoop(sentence, key, written, value string) rejected {
	text := "runtime_controls:\n  loop:\n    " + key + ": " + written + "\n"
	return rejected{sentence, text, 3, "runtime_controls.loop." + key, value}
}

// badScope writes the keys of a scope.
func badScope(sentence, written, key, value string) rejected {
	text := "runtime_controls:\n  scopes:\n  - {" + written + "}\n"
	return rejected{sentence, text, 3, "runtime_controls.scopes[0]" + key, value}
}

var rejectedFiles = []rejected{
	badSeconds("a number in double quotes", `"14400"`, `"14400"`),
	badSeconds("a number in single quotes", `'14400'`, `"14400"`),
	badSeconds("a boolean", "true", "true"),
	badSeconds("a boolean of YAML 1.1", "off", "off"),
	badSeconds("a negative number", "-1", "-1"),
	badSeconds("a negative zero", "-0", "-0"),
	badSeconds("a number with a plus", "+5", "+5"),
	badSeconds("not a number", ".nan", ".nan"),
	badSeconds("infinity", "-.inf", "-.inf"),
	badSeconds("an exponent", "1e3", "1e3"),
	badSeconds("a hexadecimal number", "0x10", "0x10"),
	badSeconds("an octal number of YAML 1.2", "0o17", "0o17"),
	badSeconds("an octal number of YAML 1.1", "017", "017"),
	badSeconds("a number with underscores", "14_400", "14_400"),
	badSeconds("a base-60 number", "4:00:00", "4:00:00"),
	badSeconds("a date", "2026-01-02", "2026-01-02"),
	badSeconds("a Go duration", "4h", "4h"),
	badSeconds("a decimal comma", "0,5", "0,5"),
	badSeconds("a point without digits after it", "5.", "5."),
	badSeconds("a point without digits before it", ".5", ".5"),
	badSeconds("digits that are not ASCII", "١٢", "١٢"),
	badSeconds("finer than a nanosecond", "0.0000000001", "0.0000000001"),
	badSeconds("longer than a duration", "9223372037", "9223372037"),
	badSeconds("exactly the value of NoLimit", "9223372036.854775807", "9223372036.854775807"),
	badSeconds("far longer than a duration", strings.Repeat("9", 100), strings.Repeat("9", 60)+"…"),
	badSeconds("a list", "[14400]", "[…]"),
	badSeconds("a mapping", "{value: 14400}", "{…}"),
	badSeconds("an empty text", `""`, `""`),
	badSeconds("a literal block of text", "|\n    14400", `"14400\n"`),
	badSeconds("a folded block of text", ">-\n    14400", "14400"),
	badSeconds("a tag on a number", "!!int 14400", "14400"),
	badSeconds("a tag on nothing", "!!null", `""`),
	badSeconds("a tag of the host's", "!seconds 14400", "14400"),
	{
		"an alias for a value", "limit: &limit 60\nruntime_controls:\n  session_wall_clock_seconds: *limit\n", 3,
		wallClockKey, "*limit",
	},
	{
		"a key twice", "runtime_controls:\n  session_wall_clock_seconds: 60\n  session_wall_clock_seconds: 60\n", 3,
		wallClockKey, "60",
	},
	{
		"a key twice where the first is null", "runtime_controls:\n  warn_at:\n  warn_at: [0.5]\n", 3,
		"runtime_controls.warn_at", "[…]",
	},

	badWarnings("a fraction by itself", "0.5", "0.5"),
	badWarnings("fractions that are not a list", "0.5,0.8", "0.5,0.8"),
	badWarnings("a fraction of one", "[1]", "1"),
	badWarnings("a fraction of zero", "[0]", "0"),
	badWarnings("a fraction that rounds to one", "[0.99999999999999999999]", "0.99999999999999999999"),
	badWarnings("a percentage", "[80%]", "80%"),
	badWarnings("a fraction in quotes", `["0.8"]`, `"0.8"`),
	badWarnings("a fraction that is null", "[0.5, null]", "null"),
	badWarnings("a fraction twice", "[0.5, 0.8, 0.50]", "0.50"),
	badWarnings("a list in a list", "[[0.5]]", "[…]"),
	badWarnings("a mapping of fractions", "{a: 0.5}", "{…}"),
	badWarnings("more than 100 warnings", "["+strings.Repeat("0.5, ", 101)+"]", "[…]"),
	{
		"a fraction in a line of its own", "runtime_controls:\n  warn_at:\n  - 0.5\n  - 1.5\n", 4, "runtime_controls.warn_at",
		"1.5",
	},
	{
		"an alias for a fraction", "limit: &limit 0.5\nruntime_controls:\n  warn_at: [*limit]\n", 3,
		"runtime_controls.warn_at", "*limit",
	},

	badKey("a tick shorter than the least", "max_tick_duration_minutes", "0.999999999", "0.999999999"),
	badKey("a tick of zero", "max_tick_duration_minutes", "0", "0"),
	badKey("a tick longer than the longest", "max_tick_duration_minutes", "60.000000001", "60.000000001"),
	badKey(
		"a tick that rounds to the longest", "max_tick_duration_minutes", "60.0000000000000000001", "60.0000000000000000001",
	),
	badKey(
		"a tick too long for a number", "max_tick_duration_minutes", strings.Repeat("9", 400),
		strings.Repeat("9", 60)+"…",
	),
	badKey("a negative tick", "max_tick_duration_minutes", "-5", "-5"),
	badKey("a tick with a unit", "max_tick_duration_minutes", "30m", "30m"),
	badKey("a grace of zero", "tick_grace_seconds", "0", "0"),
	badKey("a negative timeout", "idle_timeout_seconds", "-1", "-1"),

	badKey("a flag of YAML 1.1", "from_first_sign", "yes", "yes"),
	badKey("a flag in quotes", "from_first_sign", `"true"`, `"true"`),
	badKey("a flag that is a number", "from_first_sign", "1", "1"),
	badKey("a flag in capitals", "from_first_sign", "True", "True"),
	badKey("a flag in a list", "from_first_sign", "[true]", "[…]"),

	badKey("ladders that are a list", "ladders", "[retry]", "[…]"),
	badKey("ladders with a tag", "ladders", "!!map {idle: [retry]}", "{…}"),
	badKey("ladders that are text", "ladders", "retry", "retry"),
	badLadder("a directive by itself", "retry", "retry"),
	badLadder("directives that are not a list", `"retry,cancel"`, `"retry,cancel"`),
	badLadder("a mistyped directive", "[retri]", "retri"),
	badLadder("a directive in capitals", "[RETRY]", "RETRY"),
	badLadder("an unknown directive", "[restart]", "restart"),
	badLadder("a directive that is null", "[retry, ~]", "~"),
	badLadder("a directive that is empty", `[""]`, `""`),
	badLadder("a directive in a list", "[[retry]]", "[…]"),
	badLadder("a directive with a count", "[{retry: 2}]", "{…}"),
	badLadder("a rung after a cancel", "[retry, cancel, retry]", "retry"),
	badLadder("a second cancel", "[cancel, cancel]", "cancel"),
	badLadder("more than 100 rungs", "["+strings.Repeat("retry, ", 101)+"]", "[…]"),
	{
		"a rung in a line of its own", "runtime_controls:\n  ladders:\n    idle:\n    - retry\n    - abort\n", 5,
		"runtime_controls.ladders.idle", "abort",
	},
	{
		"a ladder twice", "runtime_controls:\n  ladders:\n    idle: [retry]\n    idle: [wait]\n", 4,
		"runtime_controls.ladders.idle", "[…]",
	},
	{
		"ladders twice", "runtime_controls:\n  ladders: {hold: [retry]}\n  ladders: {hold: [retry]}\n", 3,
		"runtime_controls.ladders", "{…}",
	},
	{
		"an alias for ladders", "a: &a {hold: [retry]}\nruntime_controls:\n  ladders: *a\n", 3, "runtime_controls.ladders",
		"*a",
	},
	{
		"an alias for a directive", "a: &a retry\nruntime_controls:\n  ladders: {hold: [*a]}\n", 3,
		"runtime_controls.ladders.hold", "*a",
	},
	{
		"a ladder for a limit that has none", "runtime_controls:\n  ladders: {wall_clock: [retry]}\n", 2,
		"runtime_controls.ladders.wall_clock", "[…]",
	},
	{
		"a ladder under a mistyped name", "runtime_controls:\n  ladders: {no-progres: [retry]}\n", 2,
		"runtime_controls.ladders.no-progres", "[…]",
	},

	badLadder("a rung that comes by itself", "[wrap_up]", "wrap_up"),
	badKey("counts that are a number", "spend", "5", "5"),
	badSpend("a negative count", "tokens", "-1", "-1"),
	badSpend("a part of a token", "tokens", "0.5", "0.5"),
	badSpend("a count in quotes", "turns", `"5"`, `"5"`),
	badSpend("a count with a unit", "tokens", "5M", "5M"),
	badSpend("a count with underscores", "tokens", "1_000_000", "1_000_000"),
	badSpend("exactly the number of NoLimit", "tokens", "9223372036854775807", "9223372036854775807"),
	badSpend("far too many", "requests", strings.Repeat("9", 30), strings.Repeat("9", 30)),
	badSpend("money without a currency", "cost", "5.00", "5.00"),
	badSpend("money with a sign before it", "cost", "$5", "$5"),
	badSpend("money with a currency before it", "cost", "EUR 5", "EUR 5"),
	badSpend("money with a currency in small letters", "cost", "5 eur", "5 eur"),
	badSpend("money without a space", "cost", "5EUR", "5EUR"),
	badSpend("money with a comma", "cost", "5,00 EUR", "5,00 EUR"),
	badSpend("negative money", "cost", "-5 EUR", "-5 EUR"),
	badSpend("money finer than a millionth", "cost", "0.0000001 EUR", "0.0000001 EUR"),
	badSpend("too much money", "cost", "9223372036854.775807 EUR", "9223372036854.775807 EUR"),
	badSpend("money in a mapping", "cost", "{amount: 5, currency: EUR}", "{…}"),
	badSpend("tools that are a number", "tools", "5", "5"),
	badSpend("tools that are a list", "tools", "[bash]", "[…]"),
	badSpend("a tool with a negative number", "tools", "{bash: -1}", "bash: -1"),
	badSpend("a tool twice", "tools", "{bash: 1, bash: 2}", "bash: 2"),
	badSpend("a tool whose name is a number", "tools", "{404: 1}", "404: 1"),
	badSpend("a tool without a name", "tools", `{"": 1}`, `"": 1`),
	badSpend("a tool with a character that cannot be seen", "tools", `{"a\u200b": 1}`, `"a\u200b": 1`),
	badSpend("a tool that is an alias", "tools", "{bash: &a 5, x: *a}", "x: *a"),
	badSpend("tools with a tag", "tools", "!!map {bash: 5}", "{…}"),
	badSpend("warnings of counts in percent", "warn_at", "[80]", "80"),
	badSpend("a count under a mistyped name", "tokns", "5", "…"),
	badSpend("a count under another style of name", "max_tokens", "5", "…"),
	{"a count outside of its block", "runtime_controls:\n  tokens: 5\n", 2, "runtime_controls.tokens", "…"},
	{
		"a tool in a line of its own", "runtime_controls:\n  spend:\n    tools:\n      bash: 5\n      search: many\n", 5,
		"runtime_controls.spend.tools", "search: many",
	},
	{
		"a reserve under a mistyped name", "runtime_controls:\n  spend: {tokens: 9, reserve: {token: 5}}\n", 2,
		"runtime_controls.spend.reserve.token", "…",
	},
	{
		"a reserve of what has none", "runtime_controls:\n  spend: {errors: 9, reserve: {errors: 5}}\n", 2,
		"runtime_controls.spend.reserve.errors", "…",
	},
	badKey("loops that are a word", "loop", "off", "off"),
	badLoop("a mode as a flag", "mode", "true", "true"),
	badLoop("a mode that is mistyped", "mode", "strikt", "strikt"),
	badLoop("a mode in a list", "mode", "[on]", "[…]"),
	badLoop("classes in a list", "classes", "[deploy]", "[…]"),
	badLoop("a class that is none", "classes", "{deploy: write}", "deploy: write"),
	badLoop("a class that is mistyped", "classes", "{deploy: chagne}", "deploy: chagne"),
	badLoop("a tool with two classes", "classes", "{deploy: [look, change]}", "deploy: […]"),
	badLoop("a tool twice", "classes", "{deploy: look, deploy: change}", "deploy: change"),
	badLoop("a class of no tool", "classes", `{"": look}`, `"": look`),
	badLoop("waits that are counted", "waits", "20", "20"),
	badLoop("waits that are a flag", "waits", "yes", "yes"),
	badLoop("a volatile field that is a text", "volatile", "elapsed", "elapsed"),
	badLoop("a volatile field twice", "volatile", "[a, a]", "a"),
	badLoop("a volatile field without a name", "volatile", `[a, ""]`, `""`),
	badLoop("a volatile field whose name is a number", "volatile", "[404]", "404"),
	badLoop("a volatile field in a list of its own", "volatile", "[[a]]", "[…]"),
	badLoop("a volatile field with a character that cannot be seen", "volatile", `["a\u200b"]`, `"a\u200b"`),
	badLoop("a volatile field with too long a name", "volatile", "["+strings.Repeat("a", 256)+"]", strings.Repeat("a", 60)+"…"),
	badLoop("too many volatile fields", "volatile", "["+strings.Repeat("a, ", 1000)+"a]", "[…]"),
	badLoop("volatile fields with a tag", "volatile", "!!seq [a]", "[…]"),
	badLoop("rounds, which are gone", "rounds", "3", "…"),
	badLoop("a fuse, which is gone", "fuse", "0", "…"),
	badLoop("a number of polls, which is gone", "polls", "40", "…"),
	badLoop("a gap between polls, which is gone", "poll_gap", "60s", "…"),
	badLoop("a setting of loops under a mistyped name", "clases", "{a: look}", "{…}"),
	badLoop("a setting of loops under its name in Go code", "Waits", "end", "…"),
	{"a setting of loops outside of its block", "runtime_controls:\n  waits: end\n", 2, "runtime_controls.waits", "…"},
	{"loops under a mistyped name", "runtime_controls:\n  loops: {waits: end}\n", 2, "runtime_controls.loops", "{…}"},
	{"loops outside of the block", "loop: {waits: end}\n", 1, "", ""},
	badKey("scopes that are a mapping", "scopes", "{scope: a, spend: {tokens: 5}}", "{…}"),
	badKey("scopes that are a name", "scopes", "tenant-7", "tenant-7"),
	{"a scope that is a name", "runtime_controls:\n  scopes:\n  - tenant-7\n", 3, "runtime_controls.scopes[0]", "tenant-7"},
	{
		"a scope that is an alias", "a: &a {scope: a}\nruntime_controls:\n  scopes:\n  - *a\n", 4,
		"runtime_controls.scopes[0]", "*a",
	},
	badScope("a scope with a limit outside of its block", "scope: a, cost: 5 EUR", ".cost", "…"),
	badScope("a scope with limits under another name", "scope: a, limits: {tokens: 5}", ".limits", "{…}"),
	badScope("a scope with a mistyped key", "scope: a, perod: day", ".perod", "…"),
	badScope("a scope with a mistyped limit", "scope: a, spend: {tokns: 5}", ".spend.tokns", "…"),
	badScope("a scope with a negative limit", "scope: a, spend: {tokens: -5}", ".spend.tokens", "-5"),
	badScope("a scope with an unknown period", "scope: a, period: week", ".period", "week"),
	badScope("a scope with a mistyped period", "scope: a, period: days", ".period", "days"),
	badScope("a scope with an unknown zone", "scope: a, zone: Berlin", ".zone", "Berlin"),
	badScope("a scope with the zone of the machine", "scope: a, zone: Local", ".zone", "Local"),
	badScope("a scope with a name that some read as a number", "scope: 7", ".scope", "7"),
	badScope("a scope with two names", "scope: a, scope: b", ".scope", "b"),
	badScope("a scope that merges", "<<: {scope: a}", "", "<<"),
	{"scopes outside of the block", "scopes:\n- {scope: a, spend: {tokens: 5}}\n", 1, "", ""},
	{"counts outside of the block", "spend: {tokens: 5}\n", 1, "", ""},

	badKey("events that are a list", "events", "[commit]", "[…]"),
	badEvents("kinds that are not a list", "commit", "commit"),
	badEvents("a kind that is a number", "[5]", "5"),
	badEvents("a kind that is a boolean to some", "[On]", "On"),
	badEvents("a kind that is null", "[null]", "null"),
	badEvents("a kind that is empty", `[""]`, `""`),
	badEvents("a kind of white space", `[" "]`, `" "`),
	badEvents("a kind with white space around it", `["commit "]`, `"commit "`),
	badEvents("a kind with a line end", `["com\nmit"]`, `"com\nmit"`),
	badEvents("a kind in a list", "[[commit]]", "[…]"),
	badEvents("a kind with a tag", "[!!str commit]", "commit"),
	badEvents("a kind of the watchdog's own", "[runtime.watchdog.retry]", "runtime.watchdog.retry"),
	badEvents("a kind twice in a list", "[commit, 'commit']", `"commit"`),
	badEvents("more than 1000 kinds", "["+strings.Repeat("a, ", 1001)+"]", "[…]"),
	{
		"a kind in two lists", "runtime_controls:\n  events:\n    ignored: [tick]\n    activity: [token, tick]\n", 4,
		"runtime_controls.events.activity", "tick",
	},
	{
		"a list of kinds under a mistyped name", "runtime_controls:\n  events: {materials: [commit]}\n", 2,
		"runtime_controls.events.materials", "[…]",
	},
	{
		"a mistyped class", "runtime_controls:\n  events: {unknown: ignore}\n", 2,
		"runtime_controls.events.unknown", "ignore",
	},
	{
		"an unknown class", "runtime_controls:\n  events: {unknown: heartbeat}\n", 2, "runtime_controls.events.unknown",
		"heartbeat",
	},
	{
		"a class in a list", "runtime_controls:\n  events: {unknown: [activity]}\n", 2, "runtime_controls.events.unknown",
		"[…]",
	},
	{"events outside of the block", "events:\n  material: [commit]\n", 1, "", ""},
	{"ladders outside of the block", "agents: {}\nladders: {idle: [retry]}\n", 2, "", ""},

	{
		"a mistyped key", "runtime_controls:\n  session_wallclock_seconds: 60\n", 2,
		"runtime_controls.session_wallclock_seconds", "…",
	},
	{"an unknown key in another style", "runtime_controls:\n  Warn-At: [0.5]\n", 2, "runtime_controls.Warn-At", `[…]`},
	{"an unknown key that is unlike any of ours", "runtime_controls:\n  budget: 60\n", 2, "runtime_controls.budget", "…"},
	{"an unknown key that is null", "runtime_controls:\n  budget:\n", 2, "runtime_controls.budget", "…"},
	{
		"an unknown key too long to repeat", "runtime_controls:\n  " + strings.Repeat("k", 100) + ": 1\n", 2,
		"runtime_controls." + strings.Repeat("k", 60) + "…", "…",
	},
	{
		"an unknown key with a control character", "runtime_controls:\n  \"a\\e[2Jb\": 1\n", 2,
		`runtime_controls."a\x1b[2Jb"`, "…",
	},
	{"an empty key", "runtime_controls:\n  \"\": 1\n", 2, "runtime_controls", `""`},
	{"a key that is a number", "runtime_controls:\n  5: 1\n", 2, "runtime_controls", "5"},
	{"a key that is a list", "runtime_controls:\n  ? [a]\n  : 1\n", 2, "runtime_controls", "[…]"},
	{
		"a merge key in the block", "base: &base {warn_at: [0.5]}\nruntime_controls:\n  <<: *base\n", 3, "runtime_controls",
		"<<",
	},

	{"a block that is a list", "runtime_controls:\n- session_wall_clock_seconds: 60\n", 2, "runtime_controls", "[…]"},
	{"a block that is a number", "runtime_controls: 14400\n", 1, "runtime_controls", "14400"},
	{"a block that is an empty text", `runtime_controls: ""`, 1, "runtime_controls", `""`},
	{
		"a block that is an alias", "base: &base {warn_at: [0.5]}\nruntime_controls: *base\n", 2, "runtime_controls", "*base",
	},
	{"a block with a tag", "runtime_controls: !!set {warn_at: [0.5]}\n", 1, "runtime_controls", "{…}"},
	{"a block twice", "runtime_controls: {}\nagents: {}\nruntime_controls: {}\n", 3, "runtime_controls", "{…}"},
	{"a block under a mistyped name", "agents: {}\nRuntime-Control: {warn_at: [0.5]}\n", 2, "", ""},
	{"a key outside of the block", "session_wall_clock_seconds: 60\n", 1, "", ""},
	{
		"a block that a merge brings in",
		"base: &base {runtime_controls: {warn_at: [0.5]}}\nmore: &more\n  <<: *base\n<<: [*more]\n", 4, "", "",
	},

	{"a file that is a list", "- runtime_controls\n", 1, "", ""},
	{"a file that is a number", "\n14400\n", 2, "", ""},
	{"several documents", "runtime_controls: {}\n---\nruntime_controls: {}\n", 2, "", ""},
	{"a document that ends and another that is empty", "runtime_controls: {}\n...\n---\n", 3, "", ""},
	{"broken YAML: a list that is not closed", "runtime_controls:\n  warn_at: [0.5\nagents: {}\n", 3, "", ""},
	{"broken YAML: a tab", "runtime_controls:\n\twarn_at: [0.5]\n", 2, "", ""},
	{"broken YAML: a colon too many", "runtime_controls: warn_at: [0.5]\n", 1, "", ""},
	{"broken YAML: an unknown anchor", "runtime_controls: *base\n", 1, "", ""},
	{
		"broken YAML: an unknown anchor with a long name", "runtime_controls: *" + strings.Repeat("n", 1000) + "\n", 1, "",
		"",
	},
	{"a control character", "runtime_controls:\n  \x01\n", 2, "", ""},
	{"a byte that is not UTF-8", "runtime_controls:\n  warn_at: [0.5] # \xff\n", 2, "", ""},
	{"UTF-16", "\xff\xfer\x00u\x00n\x00", 1, "", ""},
	{"a file that is too large", strings.Repeat("#", 1<<20+1), 0, "", ""},
}
