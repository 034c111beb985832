package watchdog_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// TestSpendBounds protects callers from a store of slices that hangs, whatever its context says.
func TestSpendBounds(t *testing.T) {
	own := watchdog.Config{Budget: watchdog.Budget{Spend: watchdog.Spend{
		Requests: 640, ToolCalls: 640, Tools: map[string]int64{"rm": 64}, WarnAt: []float64{},
	}}, Scopes: teamOf(640)}
	runSynced(t, "New waits for the record timeout in all, also beside a store of events that answers at once", func(t *testing.T) {
		store, hang := &hangingSpend{}, make(chan struct{})
		store.set(func(s *hangingSpend) { s.hang = hang })
		cfg := own
		cfg.Store, cfg.SpendStore, cfg.Logger = &watchdog.Memory{}, store, quiet
		began := time.Now()
		_, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: began}, cfg)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.LessOrEqual(t, time.Since(began), 2*watchdog.DefaultRecordTimeout, "with the close of what it began")
		close(hang)
		synctest.Wait()
		require.LessOrEqual(t, store.charged(t, "team").Requests, int64(0), "what is granted late is given back")
	})
	runSpend(t, "Admit waits for the record timeout in all, and the limit has not tripped", func(t *testing.T, store *hangingSpend, attach attachRun) {
		wd, hang := attach("s-1", own), make(chan struct{})
		store.set(func(s *hangingSpend) { s.hang = hang })
		began := time.Now()
		_, err := wd.Admit(context.Background(), "", watchdog.Amount{Requests: 100, ToolCalls: 20, Tool: "rm"})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, watchdog.DefaultRecordTimeout, time.Since(began))
		require.NoError(t, wd.Context().Err())
		ctx, cancel := context.WithCancelCause(context.Background())
		go func() { time.Sleep(time.Second); cancel(errHostGone) }()
		began = time.Now()
		_, err = wd.Admit(ctx, "", requests(100))
		require.ErrorIs(t, err, errHostGone)
		require.Equal(t, time.Second, time.Since(began), "its caller gives up")
		require.NoError(t, admit(t, wd, requests(1)).Settle(requests(1)), "of what is there")
		close(hang)
	})
	runSpend(t, "Close waits for twice the record timeout, and what is granted late is given back", func(t *testing.T, store *hangingSpend, attach attachRun) {
		wd, hang := attach("s-1", own), make(chan struct{})
		c := admit(t, wd, requests(3))
		store.set(func(s *hangingSpend) { s.hang = hang })
		go func() { _, _ = wd.Admit(context.Background(), "", requests(600)) }()
		synctest.Wait()
		began := time.Now()
		require.NoError(t, wd.Close())
		require.LessOrEqual(t, time.Since(began), 2*watchdog.DefaultRecordTimeout)
		store.set(func(s *hangingSpend) { s.hang = nil })
		close(hang)
		synctest.Wait()
		require.LessOrEqual(t, store.charged(t, "team").Requests, int64(20), "two slices of a sixty-fourth, at most")
		require.NoError(t, c.Settle(requests(3)))
	})
	runSpend(t, "a store that hangs is asked once at a time, however many runs draw on a scope", func(t *testing.T, store *hangingSpend, attach attachRun) {
		runs, cfg := make([]*watchdog.Watchdog, 1000), watchdog.Config{Scopes: teamOf(1 << 30)}
		for i := range runs {
			runs[i] = attach(fmt.Sprint("s-", i), cfg)
		}
		hang, before := make(chan struct{}), goroutines()
		store.set(func(s *hangingSpend) { s.hang, s.most = hang, 0 })
		var all sync.WaitGroup
		for range 3 { // and again, when those before have given up
			for _, wd := range runs {
				all.Go(func() { _, _ = wd.Admit(context.Background(), "", requests(1<<25)) })
			}
			synctest.Wait()
			require.Less(t, goroutines()-before, len(runs)+10, "one for each caller, and few more")
			all.Wait()
		}
		store.set(func(s *hangingSpend) { s.hang = nil })
		require.Equal(t, 1, store.most)
		close(hang)
		synctest.Wait()
	})
	runSpend(t, "without a timer no goroutine begins", func(t *testing.T, store *hangingSpend, attach attachRun) {
		cfg, before := own, goroutines()
		cfg.PollOnly = true
		started := 0
		cfg.SpendStore = &watching{store, func() { started = max(started, goroutines()-before) }}
		wd := attach("s-1", cfg)
		require.NoError(t, admit(t, wd, requests(100)).Settle(requests(200)))
		refuse(t, wd, requests(600))
		require.NoError(t, wd.Close())
		require.Zero(t, started)
		require.EqualValues(t, 200, store.charged(t, "team").Requests)
	})
}

// watching looks around in each call.
type watching struct {
	*hangingSpend
	look func()
}

func (w *watching) Take(ctx context.Context, s watchdog.Slice) (watchdog.Grant, error) {
	w.look()
	return w.hangingSpend.Take(ctx, s)
}

func (w *watching) Return(ctx context.Context, id string, unused watchdog.Totals) error {
	w.look()
	return w.hangingSpend.Return(ctx, id, unused)
}
