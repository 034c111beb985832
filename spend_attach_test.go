package watchdog_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// A curiousKeeper looks at what its run has used from the moment that it keeps it.
type curiousKeeper struct {
	stop chan struct{}
	all  sync.WaitGroup
}

func (k *curiousKeeper) Keep(_ context.Context, w *watchdog.Watchdog) (watchdog.Attempt, error) {
	k.all.Go(func() {
		for {
			select {
			case <-k.stop:
				return
			default:
				w.Usage()
				w.Fired()
			}
		}
	})
	return watchdog.Attempt{Number: 1}, nil
}

func (*curiousKeeper) Ended(context.Context, *watchdog.Watchdog) {}

// TestSpendWhileAttaching protects the limits of a run that others look at before New has returned. The race detector
// finds the rest.
func TestSpendWhileAttaching(t *testing.T) {
	for range 50 {
		k := &curiousKeeper{stop: make(chan struct{})}
		wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "job", StartedAt: time.Now()}, watchdog.Config{
			Store: &watchdog.Memory{}, SpendStore: &watchdog.Memory{}, Keeper: k,
			Budget: watchdog.Budget{Spend: watchdog.Spend{Tokens: 100}},
			Scopes: []watchdog.SharedSpend{{Scope: "tenant", Spend: watchdog.Spend{Tokens: 1000}}},
		})
		require.NoError(t, err)
		close(k.stop)
		k.all.Wait()
		assert.Len(t, wd.Usage(), 2)
		require.NoError(t, wd.Close())
	}
}
