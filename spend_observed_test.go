package watchdog_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// TestObservedBesideOthers protects that a run which is only observed says of each call that it did not fit, once,
// whoever else uses the limit.
func TestObservedBesideOthers(t *testing.T) {
	observed := func(t *testing.T, test func(b *fixture, wd *watchdog.Watchdog)) {
		inFixture(t, func(b *fixture) {
			b.cfg.ObserveOnly = true
			b.cfg.Budget.Spend = watchdog.Spend{OutputTokens: 1000, CallInput: 300, WarnAt: []float64{}}
			b.cfg.Budget.Ladders.Tokens, b.cfg.Budget.Ladders.CallInput = many(retry, 9), many(retry, 9)
			other := b.attach()
			_, err := other.Admit(context.Background(), "", watchdog.Amount{OutputTokens: 900})
			require.NoError(t, err)
			test(b, b.attach())
		})
	}
	admit := func(t *testing.T, wd *watchdog.Watchdog, most watchdog.Amount) watchdog.Charge {
		c, err := wd.Admit(context.Background(), "", most)
		require.NoError(t, err)
		return c
	}
	t.Run("a call that does not fit in two limits is one trip", func(t *testing.T) {
		observed(t, func(_ *fixture, wd *watchdog.Watchdog) {
			admit(t, wd, watchdog.Amount{InputTokens: 400, OutputTokens: 200})
			require.Equal(t, many(retry, 1), askedOf(wd))
			admit(t, wd, watchdog.Amount{OutputTokens: 200})
			require.Equal(t, many(retry, 1), askedOf(wd))
		})
	})
	t.Run("a call that a slice has room for, which was taken by force", func(t *testing.T) {
		observed(t, func(_ *fixture, wd *watchdog.Watchdog) {
			for range 3 {
				require.NoError(t, admit(t, wd, watchdog.Amount{OutputTokens: 200}).Void())
				d, ok := wd.Poll()
				require.True(t, ok)
				require.EqualValues(t, 200, d.Usage.Needed)
				require.Zero(t, d.Usage.Admitted, "the call itself is not among those that are open")
			}
		})
	})
}
