package config_test

import (
	"fmt"
	"strings"
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

// keeperContradictions are settings of the sweep block that are valid alone and not together. The text stands in the
// block, from line 2; the error is in the line, or in a variable.
var keeperContradictions = []struct {
	sentence, text string
	variables      variables
	line           int
}{
	{"a pace of more than a quarter of the sweeper's threshold", "stalled_threshold: 2m\n  keeper: {pace: 31s}", nil, 3},
	{"a pace of more than a quarter of the default threshold", "keeper: {pace: 2m31s}", nil, 2},
	{
		"a pace of more than a quarter of the threshold of a variable", "keeper: {pace: 16s}",
		variables{"WATCHDOG_STALLED_THRESHOLD_MS": "60000"}, 2,
	},
	{"a pace of a variable", "stalled_threshold: 1m", variables{"WATCHDOG_KEEPER_PACE_MS": "15001"}, 0},
	{"a threshold of the keeper's own, which is gone", "keeper: {threshold: 3s}", nil, 2},
	{"a pace of more than a quarter of the default, while the sweeper's is off", "stalled_threshold: 0\n  keeper: {pace: 3m}", nil, 3},
	{"a number of cancels without a time to count them in", "alert_count: 5", nil, 2},
	{"a number of cancels whose alert is switched off", "alert_within: 0\n  alert_count: 5", nil, 3},
}

func TestKeeperContradictions(t *testing.T) {
	var all strings.Builder
	for _, test := range keeperContradictions {
		t.Run(test.sentence, func(t *testing.T) {
			c, err := config.Parse(file, []byte("sweep:\n  "+test.text+"\n"), environment(test.variables))
			require.Nil(t, c)
			require.Equal(t, test.line, only(t, err).Line)
			fmt.Fprintf(&all, "%s:\n\t%v\n", test.sentence, err)
		})
	}
	golden(t, "rejected_keeper_contradictions.golden", all.String())
}

// TestKeeperAccepted makes a keeper and a sweeper of settings that just go together.
func TestKeeperAccepted(t *testing.T) {
	for _, text := range []string{
		"", "stalled_threshold: 2m, keeper: {pace: 30s}", "keeper: {pace: 2m30s}", "stalled_threshold: 4s",
		"stalled_threshold: 1h, keeper: {pace: 15m}", "keeper: {host: 'worker 7'}",
		"keeper: {promise: 1s}", "keeper: {promise: 5m}", "max_cancellations_per_minute: 1",
		"stalled_threshold: 1m, keeper: {pace: 15s}",
	} {
		t.Run(text, func(t *testing.T) {
			c, err := config.Parse(file, []byte("sweep: {"+text+"}\n"), config.NoEnvironment)
			require.NoError(t, err)
			store := &session.Memory{}
			c.Keeper.Store = store
			_, err = session.NewKeeper(c.Keeper)
			require.NoError(t, err)
			_, err = sweep.New(store, store, c.Sweep)
			require.NoError(t, err)
		})
	}
}

// TestAlertSwitchedOff expects a variable that switches the alert off to take the number of cancels along.
func TestAlertSwitchedOff(t *testing.T) {
	const within = "WATCHDOG_ALERT_WITHIN_MS"
	c, err := config.Parse(file, []byte(everySweep), environment(variables{within: "0"}))
	require.NoError(t, err)
	require.Equal(t, sweep.Alert{}, c.Sweep.Alert)
	require.Contains(t, settings(c), [3]string{"sweep.alert_count", "0", "environment " + within})
}

var rejectedKeeper = []rejected{
	badSweep("a threshold of zero", "keeper: {threshold", "0}", "…"),
	badSweep("a pace of zero", "keeper: {pace", "0s}", "0s"),
	badSweep("a promise of zero", "keeper: {promise", "0}", "0"),
	badSweep("a promise shorter than the shortest", "keeper: {promise", "999ms}", "999ms"),
	badSweep("a promise longer than the longest", "keeper: {promise", "5m1ms}", "5m1ms"),
	badSweep("a promise without a unit", "keeper: {promise", "10}", "10"),
	badSweep("a poll without a unit", "keeper: {poll", "2}", "2"),
	badSweep("a host that some read as a number", "keeper: {host", "7}", "7"),
	badSweep("a host without a name", "keeper: {host", "''}", `""`),
	badSweep("a host with white space", "keeper: {host", "' a'}", `" a"`),
	badSweep("a host with a character that cannot be seen", "keeper: {host", "\"a\\tb\"}", `"a\tb"`),
	badSweep("a host of several", "keeper: {host", "[a, b]}", "[…]"),
	badSweep("a host with a long name", "keeper: {host", strings.Repeat("é", 256)+"}", strings.Repeat("é", 60)+"…"),
	badSweep("a mistyped key", "keeper: {pase", "2s}", "…"),
}

func TestRejectedKeepers(t *testing.T) {
	var all strings.Builder
	for _, test := range rejectedKeeper {
		t.Run(test.sentence, func(t *testing.T) {
			c, err := config.Parse(file, []byte(test.text), config.NoEnvironment)
			require.Nil(t, c)
			fault := only(t, err)
			require.Equal(t, strings.Replace(test.key, ": {", ".", 1), fault.Key)
			require.Equal(t, test.line, fault.Line)
			require.Equal(t, test.value, fault.Value)
			fmt.Fprintf(&all, "%s:\n\t%v\n", test.sentence, err)
		})
	}
	golden(t, "rejected_keeper.golden", all.String())
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
