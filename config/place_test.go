package config_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/config"
)

// nobodyReads are texts with a setting that nothing reads, in a place that can be named.
var nobodyReads = []row{
	{"a block called watchdog", "watchdog:\n  idle_timeout_seconds: 60\n"},
	{"a block called watchdog beside ours", "runtime_controls: {}\nWatchdogs: {idle: 5}\n"},
	{"a block called sentinel", "agents: {}\nsentinel:\n  no_output_timeout: 5m\n"},
	{"a block called sweeper", "sweeper: {every: 5m}\n"},
	{"a block in capitals with a mistyped key", "Stall: {no_output_timout: 5m}\n"},
	{"a block in the plural with a mistyped key", "sweeps: {stalled: 5m}\n"},
	{"a block that lacks a letter", "stal: {after: 5m}\n"},
	{"a byte order mark before a block", "agents: {}\n\ufeffruntime_controls: {warn_at: [0.5]}\n"},
	{"a zero width space before a block", "\u200bsweep: {enabled: false}\n"},
	{"a zero width space in a block", "run\u200btime_controls: {warn_at: [0.5]}\n"},
	{"a variation selector after a block", "stall\ufe0f: {no_output_timeout: 5m}\n"},
	{"a space in the quotes of a block", "\"stall \": {no_output_timeout: 5m}\n"},
	{"a no-break space before a block", "agents: {}\n\u00a0stall: {no_output_timeout: 5m}\n"},
	{"an invisible block beside ours", "runtime_controls: {}\n\u2060runtime_controls: {warn_at: [0.5]}\n"},
	{"an invisible block of another's name", "\u200bwatchdog: {idle: 5}\n"},
	{"an invisible character before a key", "runtime_controls:\n  \u200bwarn_at: [0.5]\n"},
	{"a byte order mark before a line", "runtime_controls:\n  warn_at: [0.5]\n\ufeff  idle_timeout_seconds: 60\n"},
	{"a zero width space before a line", "stall:\n  keep_background: false\n\u200b  no_output_timeout: 5m\n"},
	{"a zero width joiner before a common word", "sweep:\n  dry_run: true\n\u200denabled: false\n"},
	{"an invisible character before a key of a step", "steps: {a: {\u200bno_output_timeout: 5m}}\n"},
	{"an inner block that is dedented", "runtime_controls:\n  warn_at: [0.5]\nspend:\n  cost: 5 EUR\n"},
	{"an inner block of common words that is dedented", "stall:\n  no_output_timeout: 5m\nprobe:\n  command: [x]\n"},
	{"a keeper that is dedented", "sweep:\n  interval: 1m\nkeeper: {pace: 1s}\n"},
	{"a keeper with a key that is gone, dedented", "sweep:\n  interval: 1m\nkeeper: {threshold: 5m}\n"},
	{"a key that is dedented", "runtime_controls:\n  warn_at: [0.5]\nidle_timeout_seconds: 60\n"},
	{"a key under its other name that is dedented",
		"runtime_controls:\n  warn_at: [0.5]\ngeneration_idle_timeout_seconds: 60\n"},
	{"a whole block that is dedented", "stall:\nno_output_timeout: 5m\n"},
	{"a common word under a block of nothing", "sweep:\nenabled: false\n"},
	{"the keys of an inner block that is nothing", "runtime_controls:\n  warn_at: [0.5]\n  spend:\ncost: 5 EUR\n"},
	{"an inner block under a block of nothing", "runtime_controls:\nspend: {cost: 5 EUR}\n"},
	{"an inner block that is dedented before the block", "spend: {cost: 5 EUR}\nruntime_controls: {warn_at: [0.5]}\n"},
	{"a block inside of another", "app:\n  runtime_controls: {idle_timeout: 60}\n"},
	{"a short block inside of another", "app:\n  stall:\n    no_output_timeout: 5m\n"},
	{"a block inside of ours", "runtime_controls:\n  stall: {no_output_timeout: 5m}\n"},
	{"a key of another block", "runtime_controls:\n  no_output_timeout: 5m\n"},

	{"a key of a step's block that is none", "steps:\n  build:\n    stall:\n      no_output_seconds: 60\n"},
	{"a mistyped key of a step's block", "steps: {build: {stall: {no_output_timout: 5m}}}\n"},
	{"a key of a probe beside it", "steps: {build: {stall: {no_output_timeout: 5m, interval: 5s}}}\n"},
	{"a wrong type in a step", "steps: {build: {stall: {no_output_timeout: 300}}}\n"},
	{"a wrong word in an action", "steps: {build: {stall: {no_output_timeout: 5m, on_stall: {action: kill}}}}\n"},
	{"an error class of two words", "defaults: {stall: {no_output_timeout: 5m, error_class: a b}}\n"},
	{"a step of a list without a name", "steps:\n- {run: make}\n- {run: make test, stall: {no_output_timeout: 5m}}\n"},
	{"a completion check", "completion_check:\n  stall: {after: 5m}\n"},
	{"a completion check of a step", "steps:\n  build:\n    completion_check: {stall: {after: 5m}}\n"},
	{"a mistyped completion check", "steps: {build: {completion_checks: {stall: {no_output_timeout: 5m}}}}\n"},
	{"a block within something else of a step", "steps: {build: {options: {stall: {no_output_timeout: 5m}}}}\n"},
	{"a key outside of its block", "steps: {build: {no_output_timeout: 5m}}\n"},
	{"an end elsewhere outside of its block", "steps: {build: {also_end: {command: [x]}}}\n"},
	{"a probe outside of its block", "steps: {build: {probe: {capture_stderr: true}}}\n"},
	{"settings of all steps in steps", "steps: {stall: {no_output_timeout: 5m}}\n"},
	{"what only a check has in a step", "steps: {build: {stall: {no_output_timeout: 5m, as_incomplete: true}}}\n"},
	{"a decision file in the defaults", "defaults: {stall: {no_output_timeout: 5m, decision_file: x}}\n"},
	{"defaults that are no mapping", "stall:\ndefaults:\n  stall: off\n"},
	{"a guard that can never fire", "steps: {build: {stall: {enabled: true}}}\n"},
	{"defaults that have no effect", "defaults: {stall: {on_stall: fail}}\nsteps: {a: {}}\n"},
	{"a limit that a step switches off, and what it needs",
		"defaults: {stall: {no_output_timeout: 5m}}\nsteps: {a: {stall: {no_output_timeout: 0, activity_source: stdout}}}\n"},
	{"a threshold in a probe, which is gone", "steps: {a: {stall: {probe: {command: [x], stall_threshold: 3}}}}\n"},
	{"a threshold that is gone, outside of the stall block", "steps: {a: {probe: {stall_threshold: 3}}}\n"},
	{"a stall block in a stall block", "steps: {a: {stall: {stall: {no_output_timeout: 5m}}}}\n"},
	{"two prefixes",
		"steps: {a: {stall: {no_output_timeout: 5m, terminal_patterns: [x], on_stall: {fingerprint_prefix: [a]}, " +
			"on_terminal: {fingerprint_prefix: [b]}}}}\n"},
	{"a block twice", "steps:\n  a:\n    stall: {no_output_timeout: 5m}\n    stall: {no_output_timeout: 5m}\n"},
	{"a step twice", "steps:\n- {id: a, stall: {no_output_timeout: 5m}}\n- {name: a}\n"},
	{"an alias in a block", "x: &x {command: [y]}\nsteps: {a: {stall: {probe: *x}}}\n"},
	{"a merge key in a block", "x: &x {y: 5}\nsteps: {a: {stall: {<<: *x}}}\n"},
	{"a step that is an alias", "x: &x {stall: {after: 5m}}\nsteps:\n  build: *x\n"},
	{"a step that merges", "x: &x\n  stall: {after: 5m}\nsteps:\n  build: {<<: [*x]}\n"},
	{"steps that merge", "x: &x\n  test:\n    stall: {after: 5m}\nsteps:\n  build: {}\n  <<: *x\n"},
	{"a step that merges a check", "x: &x {completion_check: {stall: {after: 5m}}}\nsteps: {a: {<<: *x}}\n"},
	{"steps that merge what merges", "y: &y {a: {stall: {after: 5m}}}\nx: &x {<<: *y}\nsteps: {<<: [*x]}\n"},
	{"steps that are an alias", "x: &x {a: {stall: {after: 5m}}}\nsteps: *x\n"},
	{"a step with a name to quote", "steps:\n  \"a\\nb\":\n    Stall: {after: 5m}\n"},
	{"a block with an invisible character", "steps: {a: {\"stall\u200b\": {after: 5m}}}\n"},
}

// TestUnknownValues expects the value of an unknown key in no error, also not in the cause, whatever the value and the
// rest of the file look like.
func TestUnknownValues(t *testing.T) {
	values := []string{
		canary, `"` + canary + `"`, "'" + canary + "'", "[" + canary + "]", "{a: " + canary + "}", "{" + canary + ": 1}",
		"*" + canary, "&" + canary + " 5", "!" + canary + " 5", "!<" + canary, "https://" + canary + "/x", "|\n    " + canary,
		">\n    " + canary, canary + ": " + canary, `"` + canary, "'" + canary, "[" + canary, "{" + canary, "%" + canary,
		"@" + canary, "`" + canary, `"\q` + canary + `"`, "\t" + canary, canary + "\n" + canary, "!!" + canary + "! x",
		"- " + canary, "? " + canary, "|" + canary, canary + " : : " + canary, `"` + canary + `" ` + canary, "\x01" + canary,
	}
	for _, key := range []string{
		"runtime_controls:\n  secret", "runtime_controls:\n  idle_timeout", "runtime_controls:\n  loop:\n   rounds",
		"runtime_controls:\n  scopes:\n  - limits", "stall:\n  comand", "stall:\n  probe:\n   comand", "sweep:\n  webhook",
		"sweep:\n  keeper:\n   threshold", "steps:\n a:\n  stall:\n   secret", "defaults:\n stall:\n  probe:\n   stall_threshold",
		"idle_timeout_seconds", "stalls", "\u200bsecret", "completion_check:\n stall:\n  on_stall:\n   secret",
	} {
		for _, value := range values {
			require.NotEmpty(t, faultsWithoutCanary(t, key+": "+value+"\n"))
		}
	}
	for _, text := range []string{ // a file that is something else, and keys in what is one text
		"%s", "runtime_controls:\n  secret:%s\n", "runtime_controls: |\n  secret: %s\n", "sweep:\n  keeper: 'secret: %s'\n",
		"runtime_controls:\n  scopes:\n  - secret:%s\n", "runtime_controls:\n  scopes:\n    secret:%s\n",
	} {
		require.NotEmpty(t, faultsWithoutCanary(t, fmt.Sprintf(text, canary)))
	}
}

// TestMergeCycle expects steps that merge themselves to be read.
func TestMergeCycle(t *testing.T) {
	for _, text := range []string{
		"steps: &a\n  <<: *a\n", "a: &a [*a]\nsteps:\n  <<: *a\n", "steps: &a\n- *a\n", "steps:\n  b: &b {<<: *b, completion_check: *b}\n",
	} {
		_, err := config.Parse(file, []byte(text), config.NoEnvironment)
		if err != nil {
			require.NotEmpty(t, faults(t, err), text)
		}
	}
}

// TestMergeBomb expects steps that merge one another many times to be read soon.
func TestMergeBomb(t *testing.T) {
	text := "a0: &a0 {run: x}\n"
	for i := range 60 {
		text += fmt.Sprintf("a%d: &a%d\n  <<: [*a%d, *a%d]\n", i+1, i+1, i, i)
	}
	parse(t, text+"steps:\n  build: *a60\n  <<: [*a60, *a60]\n", nil)
}
