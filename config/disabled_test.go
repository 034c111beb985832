package config_test

import (
	"fmt"
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
	golden(t, "limits_origin.golden", set(c))

	loader := config.Loader{Prefix: "OUROBOROS_", Environment: []string{
		"OUROBOROS_GENERATION_IDLE_TIMEOUT_SECONDS=60", "OUROBOROS_GENERATION_SAFETY_TIMEOUT_SECONDS=3600",
		"OUROBOROS_MCP_TOOL_TIMEOUT_SECONDS=5", "OUROBOROS_GENERATION_TIMEOUT=1", "OUROBOROS_AGENT_RUNTIME=codex",
	}}
	c, err := loader.Parse(file, []byte(origin))
	require.NoError(t, err)
	require.Equal(t, watchdog.Budget{Idle: time.Minute, NoProgress: 4 * time.Hour, Safety: time.Hour}, c.Budget)
	golden(t, "limits_origin_variables.golden", set(c))

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
