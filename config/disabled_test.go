package config_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/config"
)

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
			c, err := config.Parse(file, []byte(test.text), environment(variables{disabledVariable: test.value}))
			require.NoError(t, err)
			require.Equal(t, []bool{test.off, test.off, test.off}, []bool{c.Disabled, c.Stall.Disabled, c.Sweep.Disabled})
			require.Contains(t, settings(c), [3]string{disabledKey, fmt.Sprint(test.off), test.source})
			if test.off {
				require.Contains(t, settings(c), [3]string{"sweep.enabled", "false", test.source})
			}
		})
	}
	t.Run("the switch of the sweeper is its own", func(t *testing.T) {
		c, err := config.Parse(file, nil, environment(variables{"WATCHDOG_ENABLED": "false"}))
		require.NoError(t, err)
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
	t.Run("a run under it is not guarded", func(t *testing.T) {
		c, err := config.Load("testdata/limits.yaml", environment(variables{disabledVariable: "true"}))
		require.NoError(t, err)
		run := watchdog.Run{ID: "s-1", StartedAt: time.Now()}
		wd, err := watchdog.New(t.Context(), run, watchdog.Config{
			Disabled: c.Disabled, Store: &watchdog.Memory{}, Budget: c.Budget, Kinds: c.Kinds, Logger: slog.New(slog.DiscardHandler),
		})
		require.NoError(t, err)
		require.Equal(t, time.Duration(watchdog.NoLimit), wd.Remaining())
		require.NoError(t, wd.Close())
	})
}

// TestRejectedDisabled expects an error for whatever looks like the switch and is not: the guards would stay on.
func TestRejectedDisabled(t *testing.T) {
	var all strings.Builder
	for _, test := range []struct{ sentence, text, variable string }{
		{"a number", "runtime_controls: {disabled: 1}\n", ""},
		{"a word", "runtime_controls: {disabled: yes}\n", ""},
		{"a flag in quotes", "runtime_controls: {disabled: \"true\"}\n", ""},
		{"capitals", "runtime_controls: {disabled: TRUE}\n", ""},
		{"twice", "runtime_controls:\n  disabled: true\n  disabled: false\n", ""},
		{"a letter less", "runtime_controls: {disable: true}\n", ""},
		{"the opposite", "runtime_controls: {enabled: false}\n", ""},
		{"a word of YAML 1.1", "runtime_controls: {off: true}\n", ""},
		{"at the top level", "disabled: true\n", ""},
		{"in the block of commands", "stall: {disabled: true}\n", ""},
		{"the opposite in the block of commands", "stall: {enabled: false}\n", ""},
		{"in the block of the sweeper", "sweep: {disabled: true}\n", ""},
		{"a limit that cannot be kept", "runtime_controls: {disabled: true, idle_timeout_seconds: -1}\n", ""},
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
	} {
		t.Run(test.sentence, func(t *testing.T) {
			c, err := config.Loader{Environment: []string{test.variable}}.Parse(file, []byte(test.text))
			require.Nil(t, c)
			only(t, err)
			fmt.Fprintf(&all, "%s:\n\t%v\n", test.sentence, err)
		})
	}
	golden(t, "rejected_disabled.golden", all.String())
}
