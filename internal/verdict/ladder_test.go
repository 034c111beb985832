package verdict_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

func TestRungAtStart(t *testing.T) {
	limits := others(verdict.Limits{
		Idle: 10, Ladders: &verdict.Ladders{Idle: []verdict.Directive{verdict.DirectWait, verdict.DirectRetry}},
	})
	seen := verdict.Snapshot{Signs: &verdict.Signs{OnIdle: verdict.Rung{Attempts: 1}}}
	require.Equal(t, 2, verdict.Judge(limits, seen, 11).Rung, "a rung at the window's start counts while there is no progress")
	seen.Signs.Signal(true, 0)
	require.Equal(t, 1, verdict.Judge(limits, seen, 11).Rung, "progress at that instant puts the ladder back")
}
