package loop_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/loop"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newDetector(t *testing.T, config loop.Config) *loop.Detector {
	t.Helper()
	d, err := loop.New(config)
	require.NoError(t, err)
	return d
}
