package converge_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/converge"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// golden compares a text with a golden file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

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
