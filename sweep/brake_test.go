package sweep_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// TestFleetDied: where a whole fleet seems to have died, the caps and the alert hold.
func TestFleetDied(t *testing.T) {
	for _, c := range []struct {
		dead, live int
		lost       bool
	}{
		{1, 0, false}, {2, 0, false}, {3, 0, false}, // nobody renews
		{1, 1, true}, {2, 1, true}, {2, 5, true}, // fewer than three
		{3, 1, false}, {3, 6, false}, {4, 8, false}, // a third
		{3, 7, true}, {4, 9, true}, // less than a third
	} {
		subtest(t, fmt.Sprintf("%d die and %d live", c.dead, c.live), func(f *fixture) {
			alerts := 0
			f.cfg.Alert = sweep.Alert{Count: 9, Within: time.Hour, Func: func(context.Context, int) { alerts++ }}
			f.inBatches()
			for i := range c.dead {
				f.newHost(fmt.Sprint("dead-", i), 20)
			}
			for i := range c.live {
				defer f.newHost(fmt.Sprint("live-", i), 1).live()()
			}
			f.advance(11 * time.Minute)
			p := f.pass()
			require.Equal(f, c.dead, p.LeasesExpired)
			require.Equal(f, !c.lost, p.FleetDied)
			require.Equal(f, 1, alerts)
			if c.lost {
				require.Equal(f, 20*c.dead, p.Cancelled)
				return
			}
			require.Equal(f, 10, p.Cancelled)
			require.Zero(f, p.Lost)
			require.Contains(f, f.log.String(), "a whole fleet seems to have died or to be cut off")
			_, page := f.health()
			require.Contains(f, page, `"fleet_died": true`)
			f.made = nil
			require.Equal(f, 10, f.pass().Cancelled, "it holds for other sweepers, too")
		})
	}
	testFleetObserved(t)
	testFleetOfOthers(t)
}

// testFleetObserved is the part about what an observation sees.
func testFleetObserved(t *testing.T) {
	t.Helper()
	subtest(t, "one host whose process was started again has not died as a fleet", func(f *fixture) {
		f.newHost("before", 20)
		f.advance(11 * time.Minute)
		began := false
		f.onObserve = func(_ context.Context, suspects []string) error {
			if len(suspects) > 0 && !began && len(f.looks) == 2 {
				began = true
				f.newHost("after", 1)
			}
			return nil
		}
		p := f.pass()
		require.Equal(f, 20, p.Lost)
	})
	subtest(t, "a lease that was renewed only before the looks says nothing", func(f *fixture) {
		died, cutOff := f.newHost("dead", 20).live(), f.newHost("cut-off", 1).live()
		f.pass()
		f.advance(4 * time.Minute)
		died()
		f.advance(time.Minute)
		f.pass()
		f.advance(time.Minute)
		cutOff()
		f.advance(10 * time.Minute)
		p := f.pass()
		require.True(f, p.FleetDied)
		require.Equal(f, 1, p.LeasesExpired)
		require.Zero(f, p.Lost)
	})
	subtest(t, "three that die one after the other within an observation are counted together", func(f *fixture) {
		for i := range 4 {
			defer f.newHost(fmt.Sprint("live-", i), 1).live()()
		}
		for i, silence := range []time.Duration{6, 3, 0} {
			f.newHost(fmt.Sprint("dead-", i), 20)
			f.advance(silence * time.Second)
		}
		f.advance(11 * time.Minute)
		f.onLeases = func(all []session.Lease) {
			for i := range all {
				if all[i].ID == "dead-1" {
					all[i].Promise = 14 * time.Second
				}
			}
		}
		p := f.pass()
		require.Equal(f, 3, p.LeasesExpired)
		require.Zero(f, p.Lost)
	})
}

// testFleetOfOthers is the part about what other sweepers find.
func testFleetOfOthers(t *testing.T) {
	t.Helper()
	subtest(t, "those that another sweeper finds dead first are counted, too", func(f *fixture) {
		for i := range 3 {
			f.newHost(fmt.Sprint("dead-", i), 20)
		}
		defer f.newHost("live", 1).live()()
		f.advance(11 * time.Minute)
		f.onObserve = func(_ context.Context, suspects []string) error {
			if len(f.looks) == 3 && len(suspects) > 0 {
				for _, id := range []string{"dead-0", "dead-1"} {
					_, _, err := f.Memory.ExpireLease(f.Context(), session.Lease{ID: id, Beat: 1})
					require.NoError(f, err)
				}
			}
			return nil
		}
		p := f.pass()
		require.Equal(f, 1, p.LeasesExpired)
		require.True(f, p.FleetDied)
		require.Equal(f, 10, p.Cancelled)
	})
	subtest(t, "what another sweeper takes out of an expired lease stays as that decides", func(f *fixture) {
		f.newHost("dead", 3*session.ExpireBatch)
		defer f.newHost("live", 1).live()()
		f.advance(11 * time.Minute)
		other, err := sweep.New(f, f, f.cfg)
		require.NoError(f, err)
		joined, done := false, make(chan struct{})
		f.onExpire = func(session.Lease) (int, error) {
			if !joined { // in the middle of the batches
				joined = true
				_, _, err := f.Memory.ExpireLease(f.Context(), session.Lease{ID: "dead", Beat: 1, Lost: true})
				require.NoError(f, err)
				go func() {
					defer close(done)
					_, _ = other.Sweep(context.Background())
				}()
				time.Sleep(time.Second) // fake time
			}
			return 0, nil
		}
		f.pass()
		<-done
		require.Len(f, f.ended(), 3*session.ExpireBatch)
	})
}

// TestProcessesThatEnd: processes that end their leases soon after they began them are none that died.
func TestProcessesThatEnd(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.cfg.StartupDelay = watchdog.None
		f.onObserve = func(context.Context, []string) error { time.Sleep(time.Millisecond); return nil } // fake
		for i := range 4 {
			defer f.newHost(fmt.Sprint("live-", i), 1).live()()
		}
		dies := f.newHost("dead", 20).live()
		stop := f.run()
		f.advance(time.Minute)
		dies()
		for i := range 60 {
			h := f.newHost(fmt.Sprint("short-", i), 0)
			f.advance(6 * time.Second)
			_, _, err := f.Memory.ExpireLease(f.Context(), h.lease)
			require.NoError(f, err)
		}
		f.advance(11 * time.Minute)
		stop()
		require.Equal(f, 20, f.sweeper().Stats().Lost)
	})
}
