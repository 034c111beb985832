package config_test

import (
	"fmt"
	"log/slog"
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
