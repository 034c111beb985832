package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/config"
)

// nobodyReads are texts with a setting that nothing reads, in a place that can be named.
var nobodyReads = []rejected{
	{"a block called watchdog", "watchdog:\n  idle_timeout_seconds: 60\n", 1, "", ""},
	{"a block called watchdog beside ours", "runtime_controls: {}\nWatchdogs: {idle: 5}\n", 2, "", ""},
	{"a block called sentinel", "agents: {}\nsentinel:\n  no_output_timeout: 5m\n", 2, "", ""},
	{"a block called sweeper", "sweeper: {every: 5m}\n", 1, "", ""},
	{"a block in capitals with a mistyped key", "Stall: {no_output_timout: 5m}\n", 1, "", ""},
	{"a block in the plural with a mistyped key", "sweeps: {stalled: 5m}\n", 1, "", ""},
	{"a block that lacks a letter", "stal: {after: 5m}\n", 1, "", ""},
	{
		"a byte order mark before a block", "agents: {}\n\ufeffruntime_controls: {warn_at: [0.5]}\n", 2, "", "",
	},
	{"a zero width space before a block", "\u200bsweep: {enabled: false}\n", 1, "", ""},
	{"a zero width space in a block", "run\u200btime_controls: {warn_at: [0.5]}\n", 1, "", ""},
	{"a variation selector after a block", "stall\ufe0f: {no_output_timeout: 5m}\n", 1, "", ""},
	{"a space in the quotes of a block", "\"stall \": {no_output_timeout: 5m}\n", 1, "", ""},
	{"a no-break space before a block", "agents: {}\n\u00a0stall: {no_output_timeout: 5m}\n", 2, "", ""},
	{"an invisible block beside ours", "runtime_controls: {}\n\u2060runtime_controls: {warn_at: [0.5]}\n", 2, "", ""},
	{"an invisible block of another's name", "\u200bwatchdog: {idle: 5}\n", 1, "", ""},
	{
		"an invisible character before a key", "runtime_controls:\n  \u200bwarn_at: [0.5]\n", 2,
		`runtime_controls."\u200bwarn_at"`, "[…]",
	},
	{"a block inside of another", "app:\n  runtime_controls: {idle_timeout: 60}\n", 2, "", ""},
	{"a short block inside of another", "app:\n  stall:\n    no_output_timeout: 5m\n", 2, "", ""},
	{
		"a block inside of ours", "runtime_controls:\n  stall: {no_output_timeout: 5m}\n", 2,
		"runtime_controls.stall", "{…}",
	},
	{
		"a key of another block", "runtime_controls:\n  no_output_timeout: 5m\n", 2,
		"runtime_controls.no_output_timeout", "5m",
	},

	{
		"a step with a stall block", "steps:\n  build:\n    stall:\n      no_output_seconds: 60\n", 3,
		"steps.build.stall", "",
	},
	{"a step of a list", "steps:\n- {run: make}\n- {run: make test, stall: {after: 5m}}\n", 3, "steps[1].stall", ""},
	{"a completion check", "completion_check:\n  stall: {after: 5m}\n", 2, "completion_check.stall", ""},
	{
		"a completion check of a step", "steps:\n  build:\n    completion_check: {stall: {after: 5m}}\n", 3,
		"steps.build.completion_check.stall", "",
	},
	{"defaults of steps with a key of ours", "defaults: {stall: {no_output_timeout: 5m}}\n", 1, "defaults.stall", ""},
	{"defaults of steps", "stall:\ndefaults:\n  stall: off\n", 3, "defaults.stall", ""},
	{"a step that is an alias", "x: &x {stall: {after: 5m}}\nsteps:\n  build: *x\n", 1, "steps.build.stall", ""},
	{
		"a step that merges", "x: &x\n  stall: {after: 5m}\nsteps:\n  build: {<<: [*x]}\n", 2, "steps.build.stall", "",
	},
	{
		"steps that merge", "x: &x\n  test:\n    stall: {after: 5m}\nsteps:\n  build: {}\n  <<: *x\n", 3,
		"steps.test.stall", "",
	},
	{"a step with a name to quote", "steps:\n  \"a\\nb\":\n    Stall: {after: 5m}\n", 3, `steps."a\nb".stall`, ""},
}

// TestNothingOffInSilence expects an error, with the place and the near name, for what nothing reads.
func TestNothingOffInSilence(t *testing.T) {
	var all strings.Builder
	for _, test := range nobodyReads {
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
	golden(t, "nobody_reads.golden", all.String())
}

func TestHostBlocks(t *testing.T) {
	for sentence, test := range map[string]struct {
		text  string
		hosts []string
	}{
		"a host may have blocks with our other names": {
			"watchdog: {usb: /dev/watchdog}\nsentinel: 5\n", []string{"watchdog", "sentinel"},
		},
		"a host may read the stall blocks of steps": {
			"steps: {build: {stall: {after: 5m}}}\ndefaults: {stall: 5m}\n", []string{"steps", "defaults"},
		},
		"a host may have a block near ours": {
			"runtime_control: {a: 1}\nwarn_at: 5\n", []string{"runtime_control", "warn_at"},
		},
		"a host may nest what is named as ours": {"app: {runtime_controls: {warn_at: 5}}\n", []string{"app"}},
		"words in other blocks are not ours": {
			"metrics: {stall: 5, sweep: true, watchdog: x}\nsleep: 5\nsmall: 5\n", nil,
		},
		"steps without a stall block are left alone": {"steps: {build: {run: x, stall: }}\n", nil},
		"a step may be called stall":                 {"steps: {stall: {no_output_timeout: 5m}}\n", nil},
		"steps that are not steps are left alone":    {"steps: 5\ndefaults: [a]\ncompletion_check: x\n", nil},
	} {
		t.Run(sentence, func(t *testing.T) {
			text := test.text
			_, err := config.Loader{Environment: []string{}, HostBlocks: test.hosts}.Parse(file, []byte(text))
			require.NoError(t, err)
		})
	}
}

// TestMergeBomb expects steps that merge one another many times to be read soon.
func TestMergeBomb(t *testing.T) {
	text := "a0: &a0 {run: x}\n"
	for i := range 60 {
		text += fmt.Sprintf("a%d: &a%d\n  <<: [*a%d, *a%d]\n", i+1, i+1, i, i)
	}
	_, err := config.Parse(file, []byte(text+"steps:\n  build: *a60\n  <<: [*a60, *a60]\n"), config.NoEnvironment)
	require.NoError(t, err)
}
