package sweep_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/session"
)

// TestLookUpIsBounded protects that a database which answers slowly about many cancels in doubt does not keep a pass
// from its sessions.
func TestLookUpIsBounded(t *testing.T) {
	const answer = 4 * time.Second
	inBubble(t, func(f *fixture) {
		f.putStalled(30)
		lost, cancels := errors.New("connection lost"), 0
		f.after = func() error {
			if cancels++; cancels%3 == 0 { // three in a row that cannot be read end the pass
				return nil
			}
			return lost
		}
		f.onSession = func(context.Context) error { return errors.New("down") }
		first, err := f.sweeper().Sweep(f.Context())
		require.ErrorIs(f, err, lost)
		require.Equal(f, 10, first.Cancelled)
		require.Equal(f, 20, first.Failed, "these are in doubt")
		f.after = nil
		f.onSession = func(context.Context) error { time.Sleep(answer); return nil }
		f.put("next", time.Hour)
		var cancelled time.Time
		f.onCancel = func(context.Context, session.Session) error { cancelled = time.Now(); return nil }
		began := time.Now()
		second := f.pass()
		require.Equal(f, began, cancelled, "what is stalled now comes first")
		require.LessOrEqual(f, second.Duration, 30*time.Second+answer, "the look-up ends in time")
		require.GreaterOrEqual(f, second.Duration, 30*time.Second, "and there was as much to look up")
		others := f.pass().Cancelled + f.pass().Cancelled
		require.Equal(f, 20+1, second.Cancelled+others, "the others are looked up by the next passes")
		require.Zero(f, f.sweeper().Remembered())
	})
}
