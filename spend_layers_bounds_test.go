package watchdog_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// TestSpendLayersBound protects a caller without a timer from a wait for each of the runs around a layer: a bound is
// one of the whole.
func TestSpendLayersBound(t *testing.T) {
	limit := watchdog.Spend{Requests: 10, WarnAt: []float64{0.1}, Reserve: watchdog.Totals{Requests: 2}}
	for name, test := range map[string]func(t *testing.T, wd, layer *watchdog.Watchdog){
		"a settle that trips all": func(t *testing.T, _, layer *watchdog.Watchdog) {
			c := admit(t, layer, requests(1))
			began := time.Now()
			require.NoError(t, c.Settle(requests(100)))
			require.LessOrEqual(t, time.Since(began), watchdog.DefaultRecordTimeout)
		},
		"a settle that warns of all": func(t *testing.T, _, layer *watchdog.Watchdog) {
			c := admit(t, layer, requests(1))
			began := time.Now()
			require.NoError(t, c.Settle(requests(2)))
			require.LessOrEqual(t, time.Since(began), watchdog.DefaultRecordTimeout)
		},
		"a refusal": func(t *testing.T, _, layer *watchdog.Watchdog) {
			began := time.Now()
			refuse(t, layer, requests(9))
			require.LessOrEqual(t, time.Since(began), watchdog.DefaultRecordTimeout)
		},
	} {
		for _, observe := range []bool{false, true} {
			if observe && name == "a refusal" {
				continue
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := &flakyStore{}
					cfg := watchdog.Config{
						Store: store, SpendStore: &watchdog.Memory{}, Logger: quiet, PollOnly: true, ObserveOnly: observe,
						Budget: watchdog.Budget{Spend: limit}, Scopes: teamOf(10),
					}
					wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, cfg)
					require.NoError(t, err)
					defer wd.Close()
					layer := wd
					for range 27 {
						layer, err = layer.Layer("in", watchdog.Budget{Spend: limit})
						require.NoError(t, err)
					}
					hang := make(chan struct{})
					store.set(func(s *flakyStore) { s.hang = hang })
					test(t, wd, layer)
					store.set(func(s *flakyStore) { s.hang = nil })
					close(hang)
				})
			})
		}
	}
}
