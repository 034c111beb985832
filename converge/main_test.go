package converge_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/converge"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newTracker(t *testing.T, config converge.Config) *converge.Tracker {
	t.Helper()
	tracker, err := converge.New(config)
	require.NoError(t, err)
	return tracker
}

// observe gives the tracker one set after the other and returns the last decision.
func observe(t *testing.T, tracker *converge.Tracker, sets ...[]string) converge.Decision {
	t.Helper()
	var decision converge.Decision
	for _, set := range sets {
		var err error
		decision, err = tracker.Observe(set)
		require.NoError(t, err)
	}
	return decision
}
