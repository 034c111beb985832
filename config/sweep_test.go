package config_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/config"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// everySweep is a file in which no sweep setting has its default.
const everySweep = `sweep:
  enabled: false
  interval: 90s
  stalled_threshold: 1h30m
  min_age: 0
  startup_delay: 250ms
  max_cancellations_per_run: 25
  max_cancellations_per_minute: 100
  grace: 2m
  stop_timeout: 1.5s
  dry_run: true
  max_resumes: 3
  resume_tries: 7
  alert_within: 10m
  alert_count: 5
  keeper:
    promise: 1m
    pace: 15m
    poll: 500ms
    host: worker-7
`

func everySweeper() sweep.Config {
	return sweep.Config{
		Disabled: true, Interval: 90 * time.Second, StalledThreshold: 90 * time.Minute, MinAge: watchdog.None,
		StartupDelay:           250 * time.Millisecond,
		MaxCancellationsPerRun: 25, MaxCancellationsPerMinute: 100,
		Grace: 2 * time.Minute, StopTimeout: 1500 * time.Millisecond,
		DryRun: true, Resume: sweep.ResumePolicy{Max: 3, Tries: 7}, Alert: sweep.Alert{Count: 5, Within: 10 * time.Minute},
	}
}

func everyKeeper() session.KeeperConfig {
	return session.KeeperConfig{
		Threshold: 90 * time.Minute, Promise: time.Minute, Pace: 15 * time.Minute, Poll: 500 * time.Millisecond, Host: "worker-7",
	}
}

// sweeper returns the printed sweep settings.
func sweeper(c *config.Config) string {
	_, own, _ := strings.Cut(c.String(), "sweep.")
	return "sweep." + own
}

// TestSweepFile reads a file in which no sweep setting has its default.
func TestSweepFile(t *testing.T) {
	c, err := config.Parse(file, []byte(everySweep), config.NoEnvironment)
	require.NoError(t, err)
	require.Equal(t, everySweeper(), c.Sweep)
	require.Equal(t, everyKeeper(), c.Keeper)
	golden(t, "sweep_every.golden", sweeper(c))
}

// TestSweepVariables sets every sweep setting by its variable, lengths in milliseconds.
func TestSweepVariables(t *testing.T) {
	c, err := config.Parse(file, nil, environment(variables{
		"WATCHDOG_ENABLED": "false", "WATCHDOG_INTERVAL_MS": "90000", "WATCHDOG_STALLED_THRESHOLD_MS": "5400000",
		"WATCHDOG_MIN_AGE_MS":       "0",
		"WATCHDOG_STARTUP_DELAY_MS": "250", "WATCHDOG_MAX_CANCELLATIONS": "25",
		"WATCHDOG_MAX_CANCELLATIONS_PER_MINUTE": "100", "WATCHDOG_KEEPER_PROMISE_MS": "60000", "WATCHDOG_GRACE_MS": "120000",
		"WATCHDOG_STOP_TIMEOUT_MS": "1500", "WATCHDOG_DRY_RUN": "true", "WATCHDOG_MAX_RESUMES": "3", "WATCHDOG_RESUME_TRIES": "7",
		"WATCHDOG_ALERT_WITHIN_MS": "600000", "WATCHDOG_ALERT_COUNT": "5",
		"WATCHDOG_KEEPER_PACE_MS": "900000", "WATCHDOG_KEEPER_POLL_MS": "500", "WATCHDOG_KEEPER_HOST": "worker-7",
	}))
	require.NoError(t, err)
	require.Equal(t, everySweeper(), c.Sweep)
	require.Equal(t, everyKeeper(), c.Keeper)
	golden(t, "sweep_variables.golden", sweeper(c))
}

func TestSweepOverrides(t *testing.T) {
	for variable, want := range map[string]struct{ value, key, shown string }{
		"WATCHDOG_ENABLED":                      {"true", "enabled", "true"},
		"WATCHDOG_INTERVAL_MS":                  {"1", "interval", "1ms"},
		"WATCHDOG_STALLED_THRESHOLD_MS":         {"3600000", "stalled_threshold", "1h0m0s"},
		"WATCHDOG_MIN_AGE_MS":                   {"1000", "min_age", "1s"},
		"WATCHDOG_STARTUP_DELAY_MS":             {"0", "startup_delay", "none"},
		"WATCHDOG_MAX_CANCELLATIONS":            {"1", "max_cancellations_per_run", "1"},
		"WATCHDOG_GRACE_MS":                     {"0", "grace", "none"},
		"WATCHDOG_STOP_TIMEOUT_MS":              {"9223372036854", "stop_timeout", "2562047h47m16.854s"},
		"WATCHDOG_DRY_RUN":                      {"false", "dry_run", "false"},
		"WATCHDOG_MAX_RESUMES":                  {"0", "max_resumes", "0"},
		"WATCHDOG_RESUME_TRIES":                 {"1", "resume_tries", "1"},
		"WATCHDOG_ALERT_WITHIN_MS":              {"1", "alert_within", "1ms"},
		"WATCHDOG_ALERT_COUNT":                  {"0", "alert_count", "0"},
		"WATCHDOG_KEEPER_PACE_MS":               {"1", "keeper.pace", "1ms"},
		"WATCHDOG_KEEPER_PROMISE_MS":            {"1000", "keeper.promise", "1s"},
		"WATCHDOG_MAX_CANCELLATIONS_PER_MINUTE": {"0", "max_cancellations_per_minute", "0"},
		"WATCHDOG_KEEPER_POLL_MS":               {"1", "keeper.poll", "1ms"},
		"WATCHDOG_KEEPER_HOST":                  {"7", "keeper.host", "7"},
	} {
		t.Run(variable, func(t *testing.T) {
			c, err := config.Parse(file, []byte(everySweep), environment(variables{variable: want.value}))
			require.NoError(t, err)
			require.Contains(t, settings(c), [3]string{"sweep." + want.key, want.shown, "environment " + variable})
		})
	}
}

// TestPartialSweep expects the defaults of all sweep settings that a file leaves out.
func TestPartialSweep(t *testing.T) {
	for text, want := range map[string]sweep.Config{
		"":                          {},
		"sweep:":                    {},
		"sweep: {}":                 {},
		"sweep: {enabled: true}":    {},
		"sweep: {interval: ~}":      {},
		"sweep: {interval: 1m}":     {Interval: time.Minute},
		"sweep: {startup_delay: 0}": {StartupDelay: watchdog.None},
		"sweep: {min_age: 0s}":      {MinAge: watchdog.None},
		"sweep: {grace: 0}":         {},
		"sweep: {dry_run: false}":   {},
		"sweep: {max_resumes: 0}":   {},
		"sweep: {alert_within: 0}":  {},
		"sweep: {max_cancellations_per_minute: 0}": {},
		"sweep: {keeper: {}}":                      {},
		"sweep: {keeper: ~}":                       {},
		"sweep: {alert_within: 1m}":                {Alert: sweep.Alert{Within: time.Minute}},
		"sweep: {stalled_threshold: 0}":            {StalledThreshold: watchdog.NoLimit},
	} {
		t.Run(text, func(t *testing.T) {
			c, err := config.Parse(file, []byte(text), config.NoEnvironment)
			require.NoError(t, err)
			require.Equal(t, want, c.Sweep)
		})
	}
}

// TestLongestMilliseconds reads the largest number of milliseconds that a duration can hold.
func TestLongestMilliseconds(t *testing.T) {
	c, err := config.Load("", environment(variables{"WATCHDOG_INTERVAL_MS": "9223372036854"}))
	require.NoError(t, err)
	require.Less(t, c.Sweep.Interval, time.Duration(math.MaxInt64))
	require.Equal(t, 9223372036854*time.Millisecond, c.Sweep.Interval)
}
