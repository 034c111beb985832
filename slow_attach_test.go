package watchdog_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/replay"
)

// A lateStore takes its time to answer what it is asked first.
type lateStore struct {
	watchdog.EventStore
	slow time.Duration
}

func (s *lateStore) Read(ctx context.Context, aggregateType, aggregateID string) ([]watchdog.Event, error) {
	time.Sleep(s.slow)
	s.slow = 0
	return s.EventStore.Read(ctx, aggregateType, aggregateID)
}

// TestSlowAttach protects a run from what its store took to answer: the host could give no sign of life meanwhile. The
// wall clock and safety count it, because they are about real time.
func TestSlowAttach(t *testing.T) {
	const slow = 3 * time.Second
	for name, test := range map[string]struct {
		budget watchdog.Budget
		after  time.Duration // that the attach is done
	}{
		"idle begins when the attach is done": {watchdog.Budget{Idle: time.Second}, time.Second},
		"so does no progress":                 {watchdog.Budget{NoProgress: time.Second}, time.Second},
		"and the wait for a first sign": {
			watchdog.Budget{Idle: time.Hour, FirstSign: 2 * time.Second, FromFirstSign: true}, 2 * time.Second,
		},
		"the wall clock does not": {watchdog.Budget{WallClock: 5 * time.Second}, 5*time.Second - slow},
		"nor does safety":         {watchdog.Budget{Safety: 4 * time.Second}, 4*time.Second - slow},
	} {
		runSynced(t, name, func(t *testing.T) {
			var trace []watchdog.Signal
			cfg := watchdog.Config{
				Store: &lateStore{&watchdog.Memory{}, slow}, Budget: test.budget, Logger: quiet,
				OnSignal: func(s watchdog.Signal) { trace = append(trace, s) },
			}
			began := time.Now()
			wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: began}, cfg)
			require.NoError(t, err)
			defer wd.Close()
			require.GreaterOrEqual(t, time.Since(began), slow)
			time.Sleep(test.after - time.Since(began.Add(slow)))
			require.NoError(t, wd.Context().Err(), "at the limit itself it has not fired")
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			stop := wd.Stop()
			require.NotNil(t, stop)
			decided, err := replay.Run(test.budget, trace, false)
			require.NoError(t, err)
			require.NotEmpty(t, decided)
			require.Equal(t, stop.Code, decided[len(decided)-1].Reason)
			require.Equal(t, slow+test.after+1, decided[len(decided)-1].At)
		})
	}
}
