package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/config"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

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
			c, err := config.Parse(file, []byte(test.text), environment(test.variables))
			require.NoError(t, err)
			require.Equal(t, session.KeeperConfig{Threshold: test.want}, c.Keeper)
		})
	}
	_, err := config.Loader{Environment: []string{"WATCHDOG_KEEPER_THRESHOLD_MS=1000"}}.Load("")
	require.EqualError(t, err, "environment WATCHDOG_KEEPER_THRESHOLD_MS: is not a variable that is read; "+
		"it is gone; use WATCHDOG_STALLED_THRESHOLD_MS")
}

// TestAlertSwitchedOff expects a variable that switches the alert off to take the number of cancels along.
func TestAlertSwitchedOff(t *testing.T) {
	const within = "WATCHDOG_ALERT_WITHIN_MS"
	c, err := config.Parse(file, []byte(everySweep), environment(variables{within: "0"}))
	require.NoError(t, err)
	require.Equal(t, sweep.Alert{}, c.Sweep.Alert)
	require.Contains(t, settings(c), [3]string{"sweep.alert_count", "0", "environment " + within})
}

// TestKeeperKeepsRun uses the settings as a host does.
func TestKeeperKeepsRun(t *testing.T) {
	c, err := config.Parse(file, []byte(everySweep), config.NoEnvironment)
	require.NoError(t, err)
	store := &session.Memory{}
	c.Keeper.Store = store
	keeper, err := session.NewKeeper(c.Keeper)
	require.NoError(t, err)
	wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: time.Now()},
		watchdog.Config{Store: store, Budget: c.Budget, Keeper: keeper})
	require.NoError(t, err)
	row, err := store.Session(t.Context(), "s-1")
	require.NoError(t, err)
	require.Equal(t, "worker-7", row.Host)
	require.NoError(t, wd.Close())
}
