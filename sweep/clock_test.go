package sweep_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// setClock has the database show another time from now on.
func (f *fixture) setClock(by time.Duration) { f.clockSet.Add(int64(by)) }

// TestDatabaseClock: sessions without a lease are judged by the database's clock, which can be set.
func TestDatabaseClock(t *testing.T) {
	subtest(t, "set forward cancels nobody who was active, until he was silent for his threshold since", func(f *fixture) {
		f.put("silent", 9*time.Minute)
		f.put("busy", 0)
		f.pass()
		f.advance(time.Second)
		f.setClock(time.Hour)
		seen := time.Now()
		require.Equal(f, sweep.Tally{Checked: 2, Found: 2, Deferred: 2}, f.pass().Tally)
		stats := f.sweeper().Stats()
		require.Equal(f, 1, stats.ClockSteps)
		require.Equal(f, time.Hour, stats.LastClockStep)
		_, text := f.health()
		require.Contains(f, text, `"clock_steps": 1`)
		require.Contains(f, text, `"last_clock_step_seconds": 3600`)
		f.advance(10*time.Minute - time.Since(seen))
		require.Equal(f, 2, f.pass().Deferred, "at the threshold")
		f.wakeByDatabase("busy")
		f.advance(1)
		require.Equal(f, []string{"silent cancelled"}, outcomes(f.pass()))
		f.advance(10*time.Minute + time.Microsecond)
		require.Equal(f, []string{"busy cancelled"}, outcomes(f.pass()))
		require.Equal(f, 1, strings.Count(f.log.String(), "the clock of the database was set"))
		require.Contains(f, f.log.String(), `"step":3600000000000,"direction":"forward"`)
	})
	subtest(t, "set forward between two pages of a pass is seen, too", func(f *fixture) {
		f.cfg.MaxCancellationsPerRun = 1000
		f.putStalled(150)
		f.onPage = func(*session.Page) {
			if len(f.pages) == 1 {
				f.setClock(time.Hour)
			}
		}
		require.Equal(f, sweep.Tally{Checked: 150, Found: 150, Cancelled: 100, Deferred: 50}, f.pass().Tally)
	})
	subtest(t, "set back delays by no more than that, and is said", func(f *fixture) {
		f.put("s-1", 5*time.Minute)
		f.pass()
		f.setClock(-time.Hour)
		f.pass()
		require.Equal(f, -time.Hour, f.sweeper().Stats().LastClockStep)
		require.Contains(f, f.log.String(), `"step":-3600000000000,"direction":"back"`)
		f.advance(time.Hour + 5*time.Minute)
		require.Zero(f, f.pass().Found)
		f.advance(time.Microsecond)
		require.Equal(f, 1, f.pass().Cancelled)
		require.Equal(f, 1, f.sweeper().Stats().ClockSteps)
	})
	subtest(t, "set back makes no silence uncertain", func(f *fixture) {
		f.put("s-1", 5*time.Minute)
		f.pass()
		f.setClock(-time.Minute)
		f.pass()
		f.advance(6*time.Minute + time.Microsecond)
		require.Equal(f, 1, f.pass().Cancelled)
	})
	subtest(t, "set forward does not end a grace", func(f *fixture) {
		f.put("s-1", time.Hour)
		f.cfg.Grace, f.cfg.StalledThreshold = 10*time.Minute, time.Minute
		require.Equal(f, 1, f.pass().Warned)
		f.advance(time.Minute)
		f.setClock(time.Hour)
		f.pass()
		f.advance(9 * time.Minute)
		require.Equal(f, 1, f.pass().Deferred)
		f.advance(time.Minute)
		require.Equal(f, 1, f.pass().Cancelled)
	})
	subtest(t, "a step of a few seconds is none", func(f *fixture) {
		f.pass()
		f.setClock(5 * time.Second)
		f.pass()
		require.Zero(f, f.sweeper().Stats().ClockSteps)
	})
}

// wakeByDatabase gives a session an event, at the time that the database shows.
func (f *fixture) wakeByDatabase(runID string) {
	s := f.get(runID)
	s.LastEventAt = f.Clock()
	f.row(s)
}
