package watchdog_test

import (
	"context"
	"crypto/rand"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// hourlyTeam is a scope of requests an hour.
func hourlyTeam(limit int64) []watchdog.SharedSpend {
	scopes := teamOf(limit)
	scopes[0].Period = watchdog.PeriodHour
	return scopes
}

// chargedInHour is what the scope is charged with in the hour that is now.
func (s *hangingSpend) chargedInHour(t *testing.T) int64 {
	t.Helper()
	slice := watchdog.Slice{ID: rand.Text(), Scope: "team", Period: watchdog.PeriodHour}
	g, err := s.memory.Take(context.Background(), slice)
	require.NoError(t, err)
	return g.Charged.Requests
}

// A forgetfulSpend carries out what it is asked and can lose its answers.
type forgetfulSpend struct {
	*hangingSpend
	loses bool
}

func (s *forgetfulSpend) Take(ctx context.Context, slice watchdog.Slice) (watchdog.Grant, error) {
	g, err := s.hangingSpend.Take(ctx, slice)
	if s.loses {
		return watchdog.Grant{}, errDiskFull
	}
	return g, err
}

// TestSpendWindow protects a window from what was taken in the one before.
func TestSpendWindow(t *testing.T) {
	forever := watchdog.Budget{WallClock: watchdog.NoLimit}
	t.Run("a call draws on nothing of a window that is over, also if it is the first to see that", func(t *testing.T) {
		inSpendBubble(t, func(store *hangingSpend, attach func(string, watchdog.Config) *watchdog.Watchdog) {
			wd := attach("s-1", watchdog.Config{Scopes: hourlyTeam(6400), Budget: forever})
			admit(t, wd, requests(40)) // of a slice of 100
			time.Sleep(time.Hour)
			require.Zero(t, store.chargedInHour(t))
			admit(t, wd, requests(40))
			require.EqualValues(t, 100, store.chargedInHour(t))
		})
	})
	t.Run("what is owed is not paid with a slice of the hour before, whose answer was lost", func(t *testing.T) {
		inSpendBubble(t, func(store *hangingSpend, attach func(string, watchdog.Config) *watchdog.Watchdog) {
			lossy := &forgetfulSpend{hangingSpend: store}
			wd := attach("s-1", watchdog.Config{Scopes: hourlyTeam(640), Budget: forever, SpendStore: lossy})
			open := admit(t, wd, requests(0))
			lossy.loses = true
			_, err := wd.Admit(context.Background(), "", requests(20))
			require.ErrorIs(t, err, errDiskFull)
			require.EqualValues(t, 20, store.chargedInHour(t), "the first slice and the one whose answer was lost")
			lossy.loses = false
			time.Sleep(time.Hour)
			require.Zero(t, wd.Usage()[0].Used, "of the new hour")
			require.NoError(t, open.Settle(requests(30)))
			synctest.Wait()
			require.EqualValues(t, 30, store.chargedInHour(t))
		})
	})
}
