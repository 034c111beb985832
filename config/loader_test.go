package config_test

import (
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

// TestForeignVariables expects no error for a variable of the host or of another program.
func TestForeignVariables(t *testing.T) {
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
