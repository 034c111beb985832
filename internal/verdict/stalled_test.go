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
		{"at its threshold it is not", limits, time.Hour, 10 * time.Minute, false},
		{"a nanosecond later it is", limits, time.Hour, 10*time.Minute + 1, true},
		{"one that never had an event is silent since it was made", limits, 10*time.Minute + 1, 10*time.Minute + 1, true},
		{"at the minimum age it is old enough", young, 2 * time.Minute, 2 * time.Minute, true},
		{"a nanosecond before it is not", young, 2*time.Minute - 1, 2*time.Minute - 1, false},
		{"without a minimum age it is at once old enough", verdict.SessionLimits{Threshold: time.Minute}, 0, time.Minute + 1, true},
		{"one made in the future is too young", young, -time.Second, time.Hour, false},
		{"one whose last event is in the future is not silent", limits, time.Hour, -time.Hour, false},
		{"a threshold that is off is never exceeded", off, verdict.Never, verdict.Never, false},
		{"a silence as long as can be told is longer than any threshold", limits, verdict.Never, verdict.Never, true},
		{"a threshold of nothing is exceeded by a nanosecond", verdict.SessionLimits{}, 1, 1, true},
		{"and not by nothing", verdict.SessionLimits{}, 1, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, verdict.Stalled(c.limits, c.age, c.silence))
		})
	}
}
