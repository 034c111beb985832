package watchdog_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// TestMaxStops protects that a run which is stopped again and again is not resumed for ever.
func TestMaxStops(t *testing.T) {
	inFixture(t, func(f *fixture) {
		f.cfg.MaxStops = 3
		wd := f.attach()
		for n := range 2 {
			f.pass(5 * time.Hour)
			require.NotNil(t, wd.Stop(), n)
			require.NoError(t, wd.Close())
			wd = f.resume()
		}
		f.pass(5 * time.Hour)
		require.NoError(t, wd.Close())
		before := len(f.events(watchdog.EventResume))
		_, err := watchdog.Resume(context.Background(), f.run, f.cfg)
		require.ErrorIs(t, err, watchdog.ErrFailing)
		require.ErrorContains(t, err, "3 times in a row, at last by watchdog_wall_clock_exceeded")
		require.Len(t, f.events(watchdog.EventResume), before, "nothing is recorded")

		f.cfg.MaxStops = 4
		wd = f.resume()
		require.NoError(t, wd.Complete())
		require.NoError(t, wd.Close())
		f.cfg.MaxStops = 1
		wd = f.resume() // the row ended
		f.pass(5 * time.Hour)
		require.NoError(t, wd.Close())
		_, err = watchdog.Resume(context.Background(), f.run, f.cfg)
		require.ErrorIs(t, err, watchdog.ErrFailing)
		f.cfg.MaxStops = watchdog.NoLimit
		f.resume()
	})
	inFixture(t, func(f *fixture) {
		f.cfg.MaxStops = -1
		_, err := watchdog.New(context.Background(), f.run, f.cfg)
		require.ErrorIs(t, err, watchdog.ErrInvalid)
		require.ErrorContains(t, err, "MaxStops is -1")
	})
}
