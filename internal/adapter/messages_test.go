package adapter_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/adapter"
)

// TestNothingToWaitFor checks that a call of the model does not wait for words that never come, however much is found.
func TestNothingToWaitFor(t *testing.T) {
	wait, unstuck := watchdog.DirectiveWait, watchdog.DirectiveUnstuck
	for _, c := range []struct {
		name     string
		calls    int // different calls that the model repeats
		cfg      watchdog.Config
		messages int // at least
	}{
		{name: "a loop in a run that is only observed", calls: 1, cfg: watchdog.Config{ObserveOnly: true}, messages: 1},
		{name: "a loop of ten calls", calls: 10, messages: 2},
		{name: "a ladder that asks for nothing", calls: 1, messages: 1, cfg: watchdog.Config{
			Budget: watchdog.Budget{Ladders: watchdog.Ladders{Loop: []watchdog.DirectiveKind{wait, unstuck, wait}}},
		}},
		{name: "spend that is only observed", calls: 100, cfg: watchdog.Config{
			ObserveOnly: true, Budget: watchdog.Budget{Spend: watchdog.Spend{Requests: 3}},
		}},
	} {
		bubble(t, c.name, func(t *testing.T) {
			c.cfg.Logger = slog.New(slog.DiscardHandler)
			wd, err := watchdog.New(t.Context(), watchdog.Run{}, c.cfg)
			require.NoError(t, err)
			defer wd.Close()
			assert.GreaterOrEqual(t, repeat(t, wd, c.calls), c.messages)
		})
	}
}

// repeat makes calls again and again, and returns how many messages the model got.
func repeat(t *testing.T, wd *watchdog.Watchdog, calls int) (told int) {
	t.Helper()
	g, began := adapter.New(limits), time.Now()
	for turn := range 80 {
		_, _, err := adapter.Do(wd.Context(), g, search(fmt.Sprintf(`{"n":%d}`, turn%calls)),
			func(context.Context) (string, error) { return "nothing", nil }, func(s string) []byte { return []byte(s) })
		require.NoError(t, err)
		call, messages, err := g.Model(wd.Context(), adapter.ModelRequest{})
		assert.Zero(t, time.Since(began), "turn %d", turn)
		told += len(messages)
		if err != nil {
			require.ErrorIs(t, err, watchdog.LoopDetected)
			break
		}
		call.End(adapter.Usage{Input: 1})
	}
	return told
}

// TestRefusedTogether checks that of calls which are refused at once none waits for the words that another one took.
func TestRefusedTogether(t *testing.T) {
	for _, ladder := range [][]watchdog.DirectiveKind{
		nil, {watchdog.DirectiveUnstuck}, {watchdog.DirectiveWait, watchdog.DirectiveWait, watchdog.DirectiveWait},
	} {
		for _, reserve := range []int64{0, 2} {
			synctest.Test(t, func(t *testing.T) {
				wd := newRun(t, watchdog.Budget{
					Spend:   watchdog.Spend{Requests: 5, Reserve: watchdog.Totals{Requests: reserve}},
					Ladders: watchdog.Ladders{Requests: ladder},
				})
				g, began := adapter.New(limits), time.Now()
				var all sync.WaitGroup
				for range 12 {
					all.Go(func() {
						call, _, _ := g.Model(wd.Context(), adapter.ModelRequest{})
						call.End(adapter.Usage{})
					})
				}
				all.Wait()
				assert.Zero(t, time.Since(began))
				assert.LessOrEqual(t, wd.Usage()[0].Used, int64(5))
			})
		}
	}
}
