package procid_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/procid"
	"github.com/seed62658d38/watchdog/internal/record"
)

// startOf is when a process started.
func startOf(t *testing.T, pid int, _ record.Number) record.Number {
	t.Helper()
	s, err := procid.ReadStat(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	return record.Number(s.StartTicks)
}
