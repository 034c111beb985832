package watchdog_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// TestOwedAgain protects a shared limit from a charge that its store lost, of a run that nobody polls.
func TestOwedAgain(t *testing.T) {
	cfg := watchdog.Config{Scopes: teamOf(1000)}
	inTimedBubble := func(t *testing.T, test func(t *testing.T, store *talliedSpend, attach attachLate)) {
		inSpendBubble(t, func(hanging *hangingSpend, attach func(string, watchdog.Config) *watchdog.Watchdog) {
			store := &talliedSpend{hangingSpend: hanging, forced: map[string]int64{}}
			test(t, store, func(id string, cfg watchdog.Config) *watchdog.Watchdog {
				cfg.SpendStore = store
				return attach(id, cfg)
			})
		})
	}
	t.Run("what the store did not take is tried again by a timer", func(t *testing.T) {
		inTimedBubble(t, func(t *testing.T, store *talliedSpend, attach attachLate) {
			wd := attach("s-1", cfg)
			c := admit(t, wd, requests(100))
			store.tell(func(s *talliedSpend) { s.fails = 3 })
			require.NoError(t, c.Settle(requests(900)))
			time.Sleep(500 * time.Millisecond)
			require.Less(t, store.charged(t, "team").Requests, int64(900))
			time.Sleep(10 * time.Second)
			require.EqualValues(t, 900, store.charged(t, "team").Requests)
			store.tell(func(s *talliedSpend) { require.Equal(t, 4, s.tries) })
			time.Sleep(time.Hour)
			store.tell(func(s *talliedSpend) { require.Equal(t, 4, s.tries, "there is nothing left to try") })
			requireRefused(t, attach, "s-2", 101)
		})
	})
	t.Run("with growing pauses, and no more after Close", func(t *testing.T) {
		inTimedBubble(t, func(t *testing.T, store *talliedSpend, attach attachLate) {
			wd := attach("s-1", cfg)
			c := admit(t, wd, requests(100))
			store.tell(func(s *talliedSpend) { s.fails = 1 << 20 })
			require.NoError(t, c.Settle(requests(900)))
			time.Sleep(10 * time.Minute)
			tries := 0
			store.tell(func(s *talliedSpend) { tries = s.tries })
			require.InDelta(t, 27, tries, 8, "one in half a minute, less chance")
			require.Error(t, wd.Close())
			store.tell(func(s *talliedSpend) { tries = s.tries })
			time.Sleep(time.Hour)
			store.tell(func(s *talliedSpend) { require.Equal(t, tries, s.tries) })
			store.tell(func(s *talliedSpend) { s.fails = 0 })
			require.NoError(t, wd.Close())
			require.EqualValues(t, 900, store.charged(t, "team").Requests)
		})
	})
}
