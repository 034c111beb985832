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
		c, err := config.Parse(file, []byte("sweep: {"+row[1]+"}"), config.NoEnvironment)
		require.NoError(t, err, row[0])
		require.Equal(t, worst(row[2], row[3]), c.WorstTime(), row[0])
	}
}

func TestWorstTime(t *testing.T) {
	for name, test := range map[string]struct{ sweep, one, last string }{
		"the defaults":         {"", "15m8s", "83h30m8s"},
		"a cap that is a rate": {"max_cancellations_per_run: 1000, max_cancellations_per_minute: 1000", "15m8s", "24m8s"},
		"a larger cap":         {"max_cancellations_per_run: 1000", "15m8s", "1h0m8s"},
		"a long promise":       {"keeper: {promise: 1m}", "15m41s", "83h30m41s"},
		"the keeper's pace":    {"keeper: {pace: 2m}", "17m7s", "83h32m7s"},
		"resumes":              {"max_resumes: 1", "16m10s", "169h41m58s"},
		"no sweeper":           {"enabled: false", "never", "never"},
		"a dry run":            {"dry_run: true", "never", "never"},
		"only thresholds that sessions have themselves": {"stalled_threshold: 0", "never", "never"},
		"an interval of a century":                      {"interval: 1000000h", "1000000h10m8s", "never"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := config.Parse(file, []byte("sweep: {"+test.sweep+"}"), config.NoEnvironment)
			require.NoError(t, err)
			want := worst(test.one, test.last)
			require.Equal(t, want, c.WorstTime())
			require.True(t, strings.HasSuffix(c.String(), "\n"+want+"\n"), "it is printed with the settings")
		})
	}
	t.Run("everything switched off", func(t *testing.T) {
		c, err := config.Load("", environment(variables{"WATCHDOG_DISABLED": "true"}))
		require.NoError(t, err)
		require.Contains(t, c.WorstTime(), "cancel: never;")
	})
	t.Run("half a second less than no limit", func(t *testing.T) {
		c, err := config.Load("", config.NoEnvironment)
		require.NoError(t, err)
		rest := c.Sweep.WorstTime(c.Keeper, 1) - sweep.DefaultStalledThreshold
		c.Sweep.StalledThreshold = watchdog.NoLimit - rest - 500*time.Millisecond
		require.Equal(t, watchdog.NoLimit-500*time.Millisecond, c.Sweep.WorstTime(c.Keeper, 1))
		require.Equal(t, worst("never", "never"), c.WorstTime())
	})
	t.Run("a hook that the host adds", func(t *testing.T) {
		c, err := config.Load("", config.NoEnvironment)
		require.NoError(t, err)
		before := c.WorstTime()
		c.Sweep.StopHook = func(context.Context, session.Session) error { return nil }
		require.NotEqual(t, before, c.WorstTime())
	})
}
