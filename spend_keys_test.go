package watchdog_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// TestKeys protects calls that are made again: their keys are those of one run in one process, and where they are not
// known any more a call is charged again, so that no limit is overspent.
func TestKeys(t *testing.T) {
	admitAs := func(t *testing.T, wd *watchdog.Watchdog, key string) watchdog.Charge {
		t.Helper()
		c, err := wd.Admit(context.Background(), key, requests(3))
		require.NoError(t, err)
		return c
	}
	limits := watchdog.Budget{Spend: watchdog.Spend{Requests: 100, WarnAt: []float64{}}}
	admitted := func(wd *watchdog.Watchdog) int64 { u := wd.Usage()[0]; return u.Used + u.Admitted }
	t.Run("in a run, its layers and a layer that begins again", func(t *testing.T) {
		inFixture(t, func(f *fixture) {
			f.cfg.Budget = limits
			wd := f.attach()
			first := admitAs(t, wd, "k")
			require.Equal(t, first, admitAs(t, wd, "k"))
			require.EqualValues(t, 3, admitted(wd))
			for begun := range int64(3) {
				layer, err := wd.Layer("in", limits)
				require.NoError(t, err)
				c := admitAs(t, layer, "k")
				require.Equal(t, c, admitAs(t, layer, "k"))
				require.EqualValues(t, 3, admitted(layer), "the layer's own")
				require.Equal(t, 3+3*(begun+1), admitted(wd), "each time that it begins")
				require.Equal(t, first, admitAs(t, wd, "k"))
				require.NoError(t, c.Settle(requests(3)))
				require.Equal(t, c, admitAs(t, layer, "k"), "after it was settled")
				require.NoError(t, layer.Close())
			}
		})
	})
	t.Run("not after a restart, with a store", func(t *testing.T) {
		for name, end := range map[string]func(c watchdog.Charge) error{
			"settled": func(c watchdog.Charge) error { return c.Settle(requests(3)) },
			"open":    func(watchdog.Charge) error { return nil },
		} {
			t.Run(name, func(t *testing.T) {
				inFixture(t, func(f *fixture) {
					f.cfg.Budget = limits
					wd := f.attach()
					require.NoError(t, end(admitAs(t, wd, "k")))
					require.NoError(t, wd.Close())
					again := f.attach()
					admitAs(t, again, "k")
					require.EqualValues(t, 6, admitted(again), "charged again, and not less")
				})
			})
		}
	})
}
