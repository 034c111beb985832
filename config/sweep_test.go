package config_test

import (
	"context"
	"regexp"
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
	c := parse(t, everySweep, nil)
	require.Equal(t, everySweeper(), c.Sweep)
	require.Equal(t, everyKeeper(), c.Keeper)
	compare(t, "sweep_every.golden", sweeper(c))
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
	compare(t, "sweep_variables.golden", sweeper(c))
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
			c := parse(t, text, nil)
			require.Equal(t, want, c.Sweep)
		})
	}
}

// TestKeeperThreshold expects a keeper to have the threshold of the sweeper.
func TestKeeperThreshold(t *testing.T) {
	const stalled = "WATCHDOG_STALLED_THRESHOLD_MS"
	for sentence, test := range map[string]struct {
		text      string
		variables variables
		want      time.Duration
	}{
		"the default":                        {"", nil, 0},
		"that of the file":                   {"sweep: {stalled_threshold: 5m}", nil, 5 * time.Minute},
		"that of a variable":                 {"sweep: {stalled_threshold: 5m}", variables{stalled: "60000"}, time.Minute},
		"the default while it is off":        {"sweep: {stalled_threshold: 0}", nil, 0},
		"one too short for the default pace": {"sweep: {stalled_threshold: 1ms}", nil, time.Millisecond}, // for a sweeper alone
	} {
		t.Run(sentence, func(t *testing.T) {
			c := parse(t, test.text, test.variables)
			require.Equal(t, session.KeeperConfig{Threshold: test.want}, c.Keeper)
		})
	}
	_, err := config.Loader{Environment: []string{"WATCHDOG_KEEPER_THRESHOLD_MS=1000"}}.Load("")
	require.EqualError(t, err, "environment WATCHDOG_KEEPER_THRESHOLD_MS: is gone; set WATCHDOG_STALLED_THRESHOLD_MS")
}

// TestAlertSwitchedOff expects a variable that switches the alert off to take the number of cancels along.
func TestAlertSwitchedOff(t *testing.T) {
	const within = "WATCHDOG_ALERT_WITHIN_MS"
	c := parse(t, everySweep, variables{within: "0"})
	require.Equal(t, sweep.Alert{}, c.Sweep.Alert)
	require.Contains(t, settings(c), [3]string{"sweep.alert_count", "0", "environment " + within})
}

func worst(one, last string) string {
	return "worst time from the last sign of life to the cancel: " + one + "; for the last of 10,000 sessions: " + last
}

// worstRow matches a row of the table in docs/operations-alerts.md: settings and two times.
var worstRow = regexp.MustCompile("(?m)^\\| `([^`]+)`[^|]* \\| (\\w+) \\| (\\w+) \\|$")

// TestDocumentedWorstTimes computes the table for operators.
func TestDocumentedWorstTimes(t *testing.T) {
	_, section, found := strings.Cut(document(t, "operations-alerts.md"), "\n## The worst time\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	rows := worstRow.FindAllStringSubmatch(section, -1)
	require.Greater(t, len(rows), 10)
	require.Len(t, rows, strings.Count(section, "\n| `"))
	for _, row := range rows {
		c := parse(t, "sweep: {"+row[1]+"}", nil)
		require.Equal(t, worst(row[2], row[3]), c.WorstTime(), row[0])
	}
}

func TestWorstTime(t *testing.T) {
	for name, test := range map[string]struct{ sweep, one, last string }{
		"the keeper's pace":                             {"keeper: {pace: 2m}", "17m7s", "83h32m7s"},
		"only thresholds that sessions have themselves": {"stalled_threshold: 0", "never", "never"},
		"an interval of a century":                      {"interval: 1000000h", "1000000h10m8s", "never"},
	} {
		t.Run(name, func(t *testing.T) {
			c := parse(t, "sweep: {"+test.sweep+"}", nil)
			want := worst(test.one, test.last)
			require.Equal(t, want, c.WorstTime())
			require.True(t, strings.HasSuffix(c.String(), "\n"+want+"\n"), "it is printed with the settings")
		})
	}
	t.Run("everything switched off", func(t *testing.T) {
		c := parse(t, "", variables{"WATCHDOG_DISABLED": "true"})
		require.Contains(t, c.WorstTime(), "cancel: never;")
	})
	t.Run("half a second less than no limit", func(t *testing.T) {
		c := parse(t, "", nil)
		rest := c.Sweep.WorstTime(c.Keeper, 1) - sweep.DefaultStalledThreshold
		c.Sweep.StalledThreshold = watchdog.NoLimit - rest - 500*time.Millisecond
		require.Equal(t, watchdog.NoLimit-500*time.Millisecond, c.Sweep.WorstTime(c.Keeper, 1))
		require.Equal(t, worst("never", "never"), c.WorstTime())
	})
	t.Run("a hook that the host adds", func(t *testing.T) {
		c := parse(t, "", nil)
		before := c.WorstTime()
		c.Sweep.StopHook = func(context.Context, session.Session) error { return nil }
		require.NotEqual(t, before, c.WorstTime())
	})
}
