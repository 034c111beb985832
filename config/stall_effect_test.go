package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/config"
	"github.com/seed62658d38/watchdog/stall"
)

const noOutputVariable = "WATCHDOG_STALL_NO_OUTPUT_TIMEOUT"

// stallContradictions are stall settings that are valid alone and not together. The text stands in the block, from line
// 2.
var stallContradictions = []struct {
	sentence  string
	text      string
	variables variables
	line      int
}{
	{"an output that counts for no limit", "activity_source: stdout\n  terminal_patterns: [x]", nil, 2},
	{"an output that counts for a limit that is switched off", "no_output_timeout: 0\n  activity_source: stdout", nil, 3},
	{"an interval without a command", "no_output_timeout: 5m\n  probe: {interval: 10s}", nil, 3},
	{"a timeout without a command", "no_output_timeout: 5m\n  probe: {timeout: 10s}", nil, 3},
	{"an exit status without a command", "no_output_timeout: 5m\n  probe: {require_zero_exit: false}", nil, 3},
	{
		"an exit status that is the default without a command", "no_output_timeout: 5m\n  probe: {require_zero_exit: true}",
		nil, 3,
	},
	{"errors without a command", "no_output_timeout: 5m\n  probe: {on_probe_error: stall}", nil, 3},
	{"a threshold of errors without a command", "no_output_timeout: 5m\n  probe: {probe_error_threshold: 2}", nil, 3},
	{"a threshold of errors that mean nothing", "probe:\n    command: [x]\n    probe_error_threshold: 2", nil, 4},
	{
		"a threshold of errors that are said to mean nothing",
		"probe:\n    command: [x]\n    on_probe_error: ignore\n    probe_error_threshold: 2", nil, 5,
	},
	{"a threshold without a probe", "no_output_timeout: 5m\n  stall_threshold: 3", nil, 3},
	{"an action for a stall that nothing sees", "on_stall: interrupt\n  terminal_patterns: [x]", nil, 2},
	{"an action for a terminal state that nothing sees", "on_terminal: fail\n  no_output_timeout: 5m", nil, 2},
	{
		"an action for patterns that are none", "no_output_timeout: 5m\n  terminal_patterns: []\n  on_terminal: fail", nil, 4,
	},
	{"a grace without a signal", "interrupt_grace: 5s", nil, 2},
	{"no grace without a signal", "terminate_grace: 0", nil, 2},
	{"an end elsewhere without a signal", "also_end: {command: [x]}", nil, 2},
	{"a timeout of an end elsewhere without a command", "no_output_timeout: 5m\n  also_end: {timeout: 5s}", nil, 3},
	{"a first signal without one that trips", "first_signal: SIGTERM", nil, 2},
	{"a grace after no SIGINT", "no_output_timeout: 5m\n  interrupt_grace: 5s\n  first_signal: SIGTERM", nil, 3},
	{"a grace of SIGTERM after SIGKILL", "no_output_timeout: 5m\n  terminate_grace: 5s\n  first_signal: KILL", nil, 3},
	{"background processes without a signal", "keep_background: true", nil, 2},
	{"background processes with a signal that is switched off", "no_output_timeout: 0\n  keep_background: true", nil, 3},
	{"a prefix without a signal", "fingerprint_prefix: ci", nil, 2},
	{"a variable without a signal", "", variables{"WATCHDOG_STALL_ON_STALL": "fail"}, 0},
	{
		"an interval of a variable without a command", "no_output_timeout: 5m",
		variables{"WATCHDOG_STALL_PROBE_INTERVAL": "5s"}, 0,
	},
	{
		"variables that contradict each other", "",
		variables{noOutputVariable: "0", "WATCHDOG_STALL_ACTIVITY_SOURCE": "stderr"}, 0,
	},
}

func TestStallContradictions(t *testing.T) {
	var all strings.Builder
	for _, test := range stallContradictions {
		t.Run(test.sentence, func(t *testing.T) {
			c, err := config.Parse(file, []byte("stall:\n  "+test.text+"\n"), environment(test.variables))
			require.Nil(t, c)
			require.Equal(t, test.line, only(t, err).Line)
			fmt.Fprintf(&all, "%s:\n\t%v\n", test.sentence, err)
		})
	}
	golden(t, "rejected_stall_contradictions.golden", all.String())
}

// TestStallNeverFires expects an error for every setting of a stall block without a signal.
func TestStallNeverFires(t *testing.T) {
	text := "stall:\n  on_stall: fail\n  probe:\n    interval: 5s\n    timeout: 1s\n  keep_background: true\n"
	_, err := config.Parse(file, []byte(text), config.NoEnvironment)
	var lines []int
	for _, fault := range faults(t, err) {
		lines = append(lines, fault.Line)
	}
	require.Equal(t, []int{2, 4, 5, 6}, lines)
}

func TestEffectiveStallSettings(t *testing.T) {
	for sentence, text := range map[string]string{
		"one signal is enough: silence": "no_output_timeout: 5m\n  on_stall: fail\n  interrupt_grace: 1s\n" +
			"  keep_background: true\n  fingerprint_prefix: ci",
		"one signal is enough: a probe": "probe: {command: [x]}\n  on_stall: fail\n  on_terminal: fail\n" +
			"  stall_threshold: 2\n  terminate_grace: 0\n  keep_background: true\n  fingerprint_prefix: ci",
		"one signal is enough: a pattern": "terminal_patterns: [x]\n  on_terminal: ignore\n" +
			"  keep_background: true\n  fingerprint_prefix: ci",
		"a grace may be there where nothing is asked":  "no_output_timeout: 5m\n  on_stall: fail\n  interrupt_grace: 1s",
		"a probe may be one that takes its whole time": "probe: {command: [x], interval: 5s, timeout: 5s}",
		"settings that are switched off need nothing": "no_output_timeout: 0\n" +
			"  keep_background: false\n  terminal_patterns: []",
		"errors that mean nothing need no probe": "no_output_timeout: 5m\n  probe: {on_probe_error: ignore}",
		"a stall of a probe needs no limit of its output": "no_output_timeout: 0\n" +
			"  probe: {command: [x]}\n  on_stall: ignore",
	} {
		t.Run(sentence, func(t *testing.T) {
			_, err := config.Parse(file, []byte("stall:\n  "+text+"\n"), config.NoEnvironment)
			require.NoError(t, err)
		})
	}
}

// tunedStall is a sentinel with one signal and all settings that need it.
const tunedStall = `stall:
  no_output_timeout: 5m
  activity_source: stderr
  on_stall: fail
  interrupt_grace: 1s
  terminate_grace: 0
  also_end: {command: [x]}
  keep_background: true
  fingerprint_prefix: ci
`

func TestVariableDisablesStall(t *testing.T) {
	t.Run("a signal that is off disables its settings, but not those with another use", func(t *testing.T) {
		c, err := config.Parse(file, []byte(tunedStall), environment(variables{noOutputVariable: "0"}))
		require.NoError(t, err)
		grace := graces(time.Second, 0)
		alsoEnd := &stall.AlsoEnd{Command: []string{"x"}}
		require.Equal(t, stall.Config{KeepBackground: true, Grace: grace, AlsoEnd: alsoEnd}, c.Stall)
		golden(t, "disabled_stall.golden", sentinel(c))
	})
	t.Run("a probe is another signal", func(t *testing.T) {
		c, err := config.Parse(file, []byte(everyStall), environment(variables{noOutputVariable: "0"}))
		require.NoError(t, err)
		golden(t, "disabled_stall_probe.golden", sentinel(c))
	})
	t.Run("ignored probe errors disable their threshold", func(t *testing.T) {
		const variable = "WATCHDOG_STALL_PROBE_ON_PROBE_ERROR"
		c, err := config.Parse(file, []byte(everyStall), environment(variables{variable: "ignore"}))
		require.NoError(t, err)
		require.Zero(t, c.Stall.Probe.ErrorThreshold)
		require.Contains(t, settings(c), [3]string{"stall.probe.probe_error_threshold", "3", "environment " + variable})
	})
	t.Run("a variable may be the signal that the file's settings need", func(t *testing.T) {
		c, err := config.Parse(file, []byte("stall: {on_stall: fail}"), environment(variables{noOutputVariable: "5m"}))
		require.NoError(t, err)
		require.Equal(t, stall.ActionFail, c.Stall.OnStall)
	})
}
