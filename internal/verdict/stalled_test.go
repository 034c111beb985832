package verdict_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

func TestStalled(t *testing.T) {
	limits := verdict.SessionLimits{Threshold: 10 * time.Minute, MinAge: 2 * time.Minute}
	young := verdict.SessionLimits{Threshold: time.Minute, MinAge: 2 * time.Minute}
	off := verdict.SessionLimits{Threshold: verdict.Never}
	for _, c := range []struct {
		name         string
		limits       verdict.SessionLimits
		age, silence time.Duration
		want         bool
	}{
		{"at its threshold a session is not stalled", limits, time.Hour, 10 * time.Minute, false},
		{"a nanosecond after its threshold it is stalled", limits, time.Hour, 10*time.Minute + 1, true},
		{"a session without events is silent since its creation", limits, 10*time.Minute + 1, 10*time.Minute + 1, true},
		{"at the minimum age a session is old enough", young, 2 * time.Minute, 2 * time.Minute, true},
		{"a nanosecond before the minimum age it is too young", young, 2*time.Minute - 1, 2*time.Minute - 1, false},
		{"no minimum age means old enough at once", verdict.SessionLimits{Threshold: time.Minute}, 0, time.Minute + 1, true},
		{"a session created in the future is too young", young, -time.Second, time.Hour, false},
		{"a session whose last event is in the future is not silent", limits, time.Hour, -time.Hour, false},
		{"a threshold that is off is never exceeded", off, verdict.Never, verdict.Never, false},
		{"the longest silence is longer than any threshold", limits, verdict.Never, verdict.Never, true},
		{"a threshold of 0 is exceeded by a nanosecond", verdict.SessionLimits{}, 1, 1, true},
		{"a threshold of 0 is not exceeded by 0", verdict.SessionLimits{}, 1, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, verdict.Stalled(c.limits, c.age, c.silence))
		})
	}
}
