package bound_test

import (
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/bound"
)

func TestTimer(t *testing.T) {
	t.Run("a call that is over is held by none", func(t *testing.T) {
		timers := &spiedTimers{Mock: clock.NewMock()}
		call := tick
		call.Clock = timers
		bound.Do(t.Context(), call, ignoring(0, nil))
		require.Len(t, timers.made, 1)
		require.False(t, timers.made[0].Stop(), "it was stopped before")
	})
}

// spiedTimers is a clock that remembers its timers.
type spiedTimers struct {
	*clock.Mock
	made []*clock.Timer
}

func (c *spiedTimers) AfterFunc(d time.Duration, f func()) *clock.Timer {
	t := c.Mock.AfterFunc(d, f)
	c.made = append(c.made, t)
	return t
}
