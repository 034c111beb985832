package watchdog_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/record"
)

func TestStopReasons(t *testing.T) {
	t.Run("codes are snake_case, known, and there once", func(t *testing.T) {
		seen := map[watchdog.StopReason]bool{}
		for _, reason := range watchdog.StopReasons() {
			require.Regexp(t, `^[a-z]+(_[a-z]+)+$`, string(reason))
			require.True(t, reason.Known())
			require.False(t, seen[reason], reason)
			seen[reason] = true
		}
		require.False(t, watchdog.StopReason("").Known())
		require.False(t, watchdog.StopReason("other_reason").Known())
	})
	t.Run("the host's eight come first, then the watchdog's own", func(t *testing.T) {
		require.Equal(t, []watchdog.StopReason{
			"interview_max_rounds_exhausted", "interview_unsafe_gaps_remain", "interview_phase_deadline", "iteration_timeout",
			"wall_clock_exhausted", "oscillation_detected", "grade_regressing", "max_generations_reached", "watchdog_wall_clock_exceeded",
		}, watchdog.StopReasons()[:9])
		for i, reason := range watchdog.StopReasons() {
			require.Equal(t, i >= 8, reason.Own(), reason)
		}
	})
	t.Run("the watchdog's own are those of their reasons in events, and a host's is its own reason", func(t *testing.T) {
		for _, reason := range watchdog.StopReasons() {
			require.Equal(t, string(reason), record.Code(record.Reason(string(reason))))
			require.Equal(t, reason.Own(), record.Reason(string(reason)) != string(reason))
		}
	})
	t.Run("docs/events-codes.md lists the set and nothing else, those of hosts last", func(t *testing.T) {
		text, err := os.ReadFile("docs/events-codes.md")
		require.NoError(t, err)
		var listed []watchdog.StopReason
		for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ").FindAllSubmatch(text, -1) {
			listed = append(listed, watchdog.StopReason(row[1]))
		}
		all := watchdog.StopReasons()
		require.Equal(t, slices.Concat(all[8:], all[:8]), listed)
	})
	t.Run("docs/events.md lists every kind of event", func(t *testing.T) {
		text, err := os.ReadFile("docs/events.md")
		require.NoError(t, err)
		for _, kind := range []string{
			watchdog.EventCancel, watchdog.EventResume, watchdog.EventExtend, watchdog.EventWarning, watchdog.EventInterrupt, watchdog.EventWait,
			watchdog.EventOverrun,
		} {
			require.Contains(t, string(text), "`"+kind+"`")
		}
	})
}
