package config_test

import (
	"fmt"
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

func badSweep(sentence, key, written, value string) rejected {
	return rejected{sentence, "sweep:\n  " + key + ": " + written + "\n", 2, "sweep." + key, value}
}

var rejectedSweep = []rejected{
	badSweep("an interval of zero", "interval", "0", "0"),
	badSweep("an interval without a unit", "interval", "300000", "300000"),
	badSweep("a negative interval", "interval", "-5m", "-5m"),
	badSweep("a negative threshold", "stalled_threshold", "-1ns", "-1ns"),
	badSweep("a threshold that is a word", "stalled_threshold", "never", "never"),
	badSweep("a minimum age of none in nanoseconds", "min_age", "-1ns", "-1ns"),
	badSweep("a delay without a unit", "startup_delay", "30", "30"),
	badSweep("a delay in quotes without a unit", "startup_delay", `"0"`, `"0"`),
	badSweep("no cancel at all", "max_cancellations_per_run", "0", "0"),
	badSweep("a negative number of cancels", "max_cancellations_per_run", "-1", "-1"),
	badSweep("half a cancel", "max_cancellations_per_run", "0.5", "0.5"),
	badSweep("more than 1000000 cancels", "max_cancellations_per_run", "1000001", "1000001"),
	badSweep("a negative rate of cancels", "max_cancellations_per_minute", "-1", "-1"),
	badSweep("a rate of cancels with decimals", "max_cancellations_per_minute", "10.0", "10.0"),
	badSweep("a rate of more than 1000000 cancels", "max_cancellations_per_minute", "1000001", "1000001"),
	badSweep("a rate of cancels with a unit", "max_cancellations_per_minute", "10/m", "10/m"),
	badSweep("a negative grace", "grace", "-1m", "-1m"),
	badSweep("a hook without time", "stop_timeout", "0s", "0s"),
	badSweep("a dry run of a number", "dry_run", "1", "1"),
	badSweep("a negative number of resumes", "max_resumes", "-1", "-1"),
	badSweep("a resume without a try", "resume_tries", "0", "0"),
	badSweep("half an alert", "alert_count", "0.5", "0.5"),
	badSweep("an alert of a number", "alert_within", "10", "10"),
	badSweep("a keeper that is a text", "keeper", "worker-7", "worker-7"),
	badSweep("a flag of YAML 1.1", "enabled", "yes", "yes"),
	badSweep("a flag in quotes", "enabled", `"true"`, `"true"`),
	{"a sweeper that is a flag", "sweep: true\n", 1, "sweep", "true"},
	{"a sweeper twice", "sweep: {}\nsweep: {}\n", 2, "sweep", "{…}"},
	{"a mistyped key", "sweep:\n  stalled_treshold: 5m\n", 2, "sweep.stalled_treshold", "…"},
	{"an unknown key that is unlike any of ours", "sweep:\n  table: sessions\n", 2, "sweep.table", "…"},
	{"a key of the keeper outside of its block", "sweep:\n  pace: 5s\n", 2, "sweep.pace", "…"},
	{"a key in milliseconds", "sweep:\n  interval_ms: 5\n", 2, "sweep.interval_ms", "…"},
	{"a sweeper under a mistyped name", "sweeps:\n  stalled_threshold: 5m\n", 1, "", ""},
	{"a key of the sweeper outside of the block", "stalled_threshold: 5m\n", 1, "", ""},
	{"a cap of cancels outside of the block", "max_cancellations_per_run: 5\n", 1, "", ""},
	{"a rate of cancels outside of the block", "max_cancellations_per_minute: 5\n", 1, "", ""},
	{"a key of the lease outside of its block", "sweep:\n  promise: 5s\n", 2, "sweep.promise", "…"},
	{"a sweeper that a merge brings in", "base: &base {sweep: {interval: 5m}}\n<<: *base\n", 2, "", ""},
}

func TestRejectedSweepFiles(t *testing.T) {
	var all strings.Builder
	for _, test := range rejectedSweep {
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
	golden(t, "rejected_sweep.golden", all.String())
}

func TestRejectedSweepVariables(t *testing.T) {
	const interval = "WATCHDOG_INTERVAL_MS"
	var all strings.Builder
	for _, test := range []struct{ sentence, variable, text string }{
		{"an interval with a unit", interval, "5m"},
		{"an interval in milliseconds with a unit", interval, "300000ms"},
		{"an interval of zero", interval, "0"},
		{"a negative interval", interval, "-1"},
		{"an interval with a plus", interval, "+300000"},
		{"an interval with a space", interval, "300000 "},
		{"an interval in quotes", interval, `"300000"`},
		{"a fraction of a millisecond", interval, "0.5"},
		{"a whole number with decimals", interval, "300000.0"},
		{"an exponent", interval, "3e5"},
		{"a number that is octal to some", interval, "0300000"},
		{"a number that is too long", interval, "9223372036855"},
		{"a number that is far too long", interval, strings.Repeat("9", 100)},
		{"a threshold that is off", "WATCHDOG_STALLED_THRESHOLD_MS", "off"},
		{"a negative minimum age", "WATCHDOG_MIN_AGE_MS", "-1"},
		{"a negative delay", "WATCHDOG_STARTUP_DELAY_MS", "-30000"},
		{"no cancel at all", "WATCHDOG_MAX_CANCELLATIONS", "0"},
		{"half a cancel", "WATCHDOG_MAX_CANCELLATIONS", "1.5"},
		{"a rate of cancels in words", "WATCHDOG_MAX_CANCELLATIONS_PER_MINUTE", "unlimited"},
		{"half a cancel a minute", "WATCHDOG_MAX_CANCELLATIONS_PER_MINUTE", "0.5"},
		{"a negative grace", "WATCHDOG_GRACE_MS", "-1"},
		{"a hook without time", "WATCHDOG_STOP_TIMEOUT_MS", "0"},
		{"no resume in words", "WATCHDOG_MAX_RESUMES", "none"},
		{"an alert with a unit", "WATCHDOG_ALERT_WITHIN_MS", "10m"},
		{"a keeper without a pause", "WATCHDOG_KEEPER_PACE_MS", "0"},
		{"a promise shorter than the shortest", "WATCHDOG_KEEPER_PROMISE_MS", "999"},
		{"a promise of zero", "WATCHDOG_KEEPER_PROMISE_MS", "0"},
		{"a promise longer than the longest", "WATCHDOG_KEEPER_PROMISE_MS", "300001"},
		{"a host with white space", "WATCHDOG_KEEPER_HOST", " worker-7"},
		{"a flag of a number", "WATCHDOG_ENABLED", "1"},
		{"a flag in capitals", "WATCHDOG_ENABLED", "FALSE"},
	} {
		t.Run(test.sentence, func(t *testing.T) {
			c, err := config.Load("", environment(variables{test.variable: test.text}))
			require.Nil(t, c)
			require.Equal(t, test.variable, only(t, err).Variable)
			fmt.Fprintf(&all, "%s:\n\t%v\n", test.sentence, err)
		})
	}
	golden(t, "rejected_sweep_variables.golden", all.String())
}

// TestForeignKeys accepts keys of other programs that resemble those of the sweep block.
func TestForeignKeys(t *testing.T) {
	for _, text := range []string{
		"enabled: true", "interval: 5m", "min_age: 1", "startup_delay: 5s", "grace: 5s", "stop_timeout: 1",
		"sleep: {interval: 5}", "sweet: {enabled: true}", "dry_run: true", "alert_count: 5", "keeper: {pace: 5, host: x}",
	} {
		_, err := config.Parse(file, []byte(text), config.NoEnvironment)
		require.NoError(t, err, text)
	}
}

// TestLongestMilliseconds reads the largest number of milliseconds that a duration can hold.
func TestLongestMilliseconds(t *testing.T) {
	c, err := config.Load("", environment(variables{"WATCHDOG_INTERVAL_MS": "9223372036854"}))
	require.NoError(t, err)
	require.Less(t, c.Sweep.Interval, time.Duration(math.MaxInt64))
	require.Equal(t, 9223372036854*time.Millisecond, c.Sweep.Interval)
}
