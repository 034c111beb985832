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

// TestMisspeltVariables expects an error for a variable that is almost one of ours, but none for one of the host's.
func TestMisspeltVariables(t *testing.T) {
	var all strings.Builder
	for _, test := range []struct{ sentence, variable string }{
		{"the style of a block", "WATCHDOG_SWEEP_INTERVAL_MS"},
		{"the style of a block, without a unit", "WATCHDOG_SWEEP_MIN_AGE"},
		{"the style of a block, unlike any of ours", "WATCHDOG_SWEEP_COLOUR"},
		{"the path of a key", "WATCHDOG_RUNTIME_CONTROLS_IDLE_TIMEOUT_SECONDS"},
		{"a letter too many", "WATCHDOG_SESSION_WALL_CLOCKS_SECONDS"},
		{"another unit", "WATCHDOG_IDLE_TIMEOUT_MS"},
		{"no unit", "WATCHDOG_STALLED_THRESHOLD"},
		{"the name of the key", "WATCHDOG_MAX_CANCELLATIONS_PER_RUN"},
		{"the key without its block", "WATCHDOG_NO_OUTPUT_TIMEOUT"},
		{"small letters", "watchdog_warn_at"},
		{"hyphens", "WATCHDOG-WARN-AT"},
		{"an invisible character", "\ufeffWATCHDOG_WARN_AT"},
		{"a space", "WATCHDOG_WARN_AT "},
		{"a misspelt prefix", "WATCHDOGS_WARN_AT"},
		{"a count without its block", "WATCHDOG_INPUT_TOKENS"},
		{"a count with a letter less", "WATCHDOG_SPEND_TOKEN"},
		{"a setting of loops with a letter less", "WATCHDOG_LOOP_CLASSE"},
		{"a setting of loops that is gone", "WATCHDOG_LOOP_FUSE_OF"},
		{"a setting of loops that is gone and has another now", "WATCHDOG_LOOP_POLL_GAP"},
		{"a setting of loops unlike any of ours", "WATCHDOG_LOOP_DETECTION"},
		{"a count unlike any of ours", "WATCHDOG_SPEND_COST_RESERVE"},
		{"scopes, which have no variable", "WATCHDOG_RUNTIME_CONTROLS_SCOPES"},
		{"a key that has no variable", "WATCHDOG_STALL_PROBE_COMMAND"},
		{"a key that has no variable, without its block", "WATCHDOG_TERMINAL_PATTERNS"},
	} {
		t.Run(test.sentence, func(t *testing.T) {
			loader := config.Loader{Environment: []string{"HOME=/", test.variable + "=canary"}}
			c, err := loader.Load("")
			require.Nil(t, c)
			fault := only(t, err)
			require.NotEmpty(t, fault.Variable)
			require.NotContains(t, err.Error(), "canary", "the value may be the host's")
			fmt.Fprintf(&all, "%s:\n\t%v\n", test.sentence, err)
		})
	}
	golden(t, "misspelt_variables.golden", all.String())

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
