package notify_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/notify"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// TestStore has runs that end in every way, and a sweeper, write to a store with an outbox, while two senders deliver to
// a receiver that fails now and then: what is told is what the store has.
func TestStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, r := &session.Memory{Outbox: true}, &receiver{}
		chance := rand.New(rand.NewPCG(1, 2))
		r.answers(func(*http.Request, string) (*http.Response, error) {
			r.mu.Lock()
			failing := chance.IntN(3) == 0
			r.mu.Unlock()
			if failing {
				return respond(500), nil
			}
			return nil, nil
		})
		cfg := notify.Config{
			URL: hook, Secrets: []string{secret}, Transport: r, Logger: slog.New(slog.DiscardHandler), Completes: true,
		}
		one, err := notify.New(store, store, cfg)
		require.NoError(t, err)
		two, err := notify.New(store, store, cfg)
		require.NoError(t, err)
		end := run(t, one, two)

		var runs []string
		for i := range 200 {
			runs = append(runs, fmt.Sprintf("run-%d", i))
			endRun(t, store, runs[i], i%5)
			time.Sleep(time.Second)
		}
		for i := range 3 {
			runs = append(runs, fmt.Sprintf("stale-%d", i))
			require.NoError(t, store.Put(t.Context(), session.Session{
				RunID: runs[len(runs)-1], Status: session.Active, Attempt: 1, CreatedAt: time.Now().Add(-3 * time.Hour),
				StartedAt: time.Now().Add(-3 * time.Hour), LastEventAt: time.Now().Add(-time.Hour),
			}))
		}
		sweeper, err := sweep.New(store, store, sweep.Config{
			Logger: cfg.Logger, Alert: sweep.Alert{Count: 1, Within: time.Hour, Func: notify.Alert(store, time.Hour, cfg.Logger)},
		})
		require.NoError(t, err)
		pass, err := sweeper.Sweep(t.Context())
		require.NoError(t, err)
		require.Equal(t, 3, pass.Cancelled)
		time.Sleep(time.Hour)
		end()

		var ends []string
		for _, id := range runs {
			events, err := store.Read(t.Context(), watchdog.AggregateType, id)
			require.NoError(t, err)
			for _, e := range events {
				if e.Type == watchdog.EventCancel || e.Type == watchdog.EventComplete {
					ends = append(ends, e.ID)
				}
			}
		}
		require.Len(t, ends, 200*3/5+3)
		told := r.ids()
		assert.Subset(t, told, ends)
		assert.Len(t, told, len(ends)+1, "and the alert")
		left, err := store.ClaimNotices(t.Context(), 1, time.Hour)
		require.NoError(t, err)
		assert.Empty(t, left)
	})
}

// endRun runs a run that ends in one of five ways.
func endRun(t *testing.T, store *session.Memory, id string, way int) {
	t.Helper()
	wd, err := watchdog.New(t.Context(), watchdog.Run{ID: id, StartedAt: time.Now()}, watchdog.Config{
		Store: store, Budget: watchdog.Budget{WallClock: time.Second}, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	layer, err := wd.Layer("tool", watchdog.Budget{WallClock: time.Millisecond})
	require.NoError(t, err)
	<-layer.Context().Done() // its stop is a layer's
	switch way {
	case 0:
		<-wd.Context().Done()
	case 1:
		_, err = wd.Cancel(watchdog.Cancellation{Reason: "quota_used"})
	case 2:
		err = wd.Complete()
	case 3:
		err = wd.Interrupt("SIGTERM")
	}
	require.NoError(t, err)
	require.NoError(t, layer.Close())
	require.NoError(t, wd.Close())
}
