package sweep_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// dieBeside begins a host that dies at once with its runs, beside others that live until stop is called, and lets the
// time go by after which those runs have been silent for too long.
func (f *fixture) dieBeside(runs, living int) (stop func()) {
	f.Helper()
	f.newHost("dead", runs)
	var stops []func()
	for i := range living {
		stops = append(stops, f.newHost(fmt.Sprint("live-", i), 1).live())
	}
	f.advance(11 * time.Minute)
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// TestLost: the sessions of a process that was seen to die while others live count toward no cap.
func TestLost(t *testing.T) {
	subtest(t, "all are cancelled by the pass that finds them, in pages", func(f *fixture) {
		f.cfg.MaxCancellationsPerMinute = 10
		b := f.inBatches()
		defer f.dieBeside(400, 1)()
		p := f.pass()
		require.Equal(f, sweep.Tally{
			Checked: 400, Found: 400, Cancelled: 400, Lost: 400, LeasesExpired: 1,
		}, p.Tally)
		require.False(f, p.FleetDied)
		require.LessOrEqual(f, len(b.calls), 6)
		for _, names := range b.calls {
			require.LessOrEqual(f, len(names), 100)
		}
		require.Equal(f, 10, f.takesPass(10, 20), "the rate has not counted them")
		_, page := f.health()
		require.Contains(f, page, `"lost": 400`)
	})
	subtest(t, "those that only look stalled are still as many as the cap, before and behind them", func(f *fixture) {
		f.putStalled(30)
		f.inBatches()
		defer f.dieBeside(150, 2)()
		for i := range 30 {
			f.put(fmt.Sprintf("t-%02d", i), 10*time.Minute+30*time.Second)
		}
		p := f.pass()
		require.Equal(f, 160, p.Cancelled)
		require.Equal(f, 150, p.Lost)
		p = f.pass()
		require.Equal(f, sweep.Tally{Checked: 10, Found: 10, Cancelled: 10}, p.Tally)
	})
	subtest(t, "they stay lost for the sweepers to come", func(f *fixture) {
		dead := f.newHost("dead", 100)
		defer f.newHost("live", 1).live()()
		f.advance(time.Minute)
		require.Equal(f, sweep.Tally{LeasesExpired: 1}, f.pass().Tally, "they are not stalled yet")
		dead.renew()
		f.advance(10 * time.Minute)
		f.made = nil
		require.Equal(f, 100, f.pass().Lost)
	})
	subtest(t, "unless a process claims them back", func(f *fixture) {
		f.newHost("dead", 100)
		live := f.newHost("live", 1)
		stop := live.live()
		f.advance(time.Minute)
		f.pass()
		for i := range 50 {
			live.signal(true, fmt.Sprintf("dead-%03d", i))
		}
		f.advance(11 * time.Minute)
		p := f.pass()
		require.Equal(f, 60, p.Cancelled, "of those that were claimed back the lease vouches for the silence")
		require.Equal(f, 50, p.Lost)
		stop()
	})
	subtest(t, "each is warned first, and has its grace", func(f *fixture) {
		f.cfg.Grace = time.Minute
		f.inBatches()
		f.putStalled(12)
		defer f.dieBeside(150, 1)()
		require.Equal(f, 160, f.pass().Warned)
		f.advance(time.Minute)
		p := f.pass()
		require.Equal(f, 160, p.Cancelled)
		require.Equal(f, 150, p.Lost)
	})
	subtest(t, "a dry run says so", func(f *fixture) {
		defer f.dieBeside(100, 1)()
		f.cfg.MinAge = 20 * time.Minute
		f.pass()
		f.advance(10 * time.Minute)
		f.putStalled(20)
		f.cfg.DryRun, f.made = true, nil
		require.Len(f, f.pass().Cases, 110)
	})
	for name, set := range map[string]func(f *fixture){
		"stop hooks": func(f *fixture) { f.cfg.StopHook = func(context.Context, session.Session) error { return nil } },
		"starts": func(f *fixture) {
			f.cfg.Resume = sweep.ResumePolicy{Max: 1, Start: func(context.Context, session.Session) error { return nil }}
		},
	} {
		subtest(t, name+" stay limited", func(f *fixture) {
			set(f)
			b := f.inBatches()
			defer f.dieBeside(30, 1)()
			p := f.pass()
			require.Equal(f, 10, p.Cancelled)
			require.Zero(f, p.Lost)
			require.Empty(f, b.calls)
		})
	}
	subtest(t, "those that have no start left are cancelled together", func(f *fixture) {
		f.cfg.Resume = sweep.ResumePolicy{Max: 1, Start: func(context.Context, session.Session) error { return nil }}
		b := f.inBatches()
		for i := range 30 {
			f.row(session.Session{RunID: fmt.Sprintf("dead-%03d", i), Attempt: 1, CreatedAt: time.Now(), Resumes: i % 2})
		}
		defer f.dieBeside(30, 1)()
		p := f.pass()
		require.Equal(f, 10, p.Resumed)
		require.Equal(f, 15, p.Lost)
		require.Equal(f, 25, p.Cancelled)
		require.NotEmpty(f, b.calls)
	})
	subtest(t, "a page that is refused is halved", func(f *fixture) {
		f.inBatches()
		defer f.dieBeside(210, 1)()
		f.poisoned = only("dead-050")
		alone := 0
		f.onCancel = func(context.Context, session.Session) error { alone++; return nil }
		p := f.failsFor(errPoisoned)
		require.Equal(f, 209, p.Cancelled)
		require.Equal(f, 1, p.Failed)
		require.LessOrEqual(f, alone, 10)
		require.Len(f, slices.Compact(slices.Sorted(slices.Values(f.ended()))), 209)
		require.Equal(f, 1, f.sweeper().Remembered())
	})
	subtest(t, "a database that is locked ends the pass, which comes again soon", func(f *fixture) {
		b := f.inBatches()
		defer f.dieBeside(300, 1)()
		free := time.Now().Add(40 * time.Second)
		b.onAll = func([]session.BatchedCancel) error {
			if time.Now().After(free) {
				return nil
			}
			time.Sleep(time.Second) // fake time
			return fmt.Errorf("busy: %w", session.ErrLocked)
		}
		f.onCancel = func(context.Context, session.Session) error { return b.onAll(nil) }
		defer f.run()()
		f.advance(40 * time.Second)
		require.Empty(f, f.ended())
		f.advance(10 * time.Second)
		require.Len(f, f.ended(), 300)
	})
	subtest(t, "a full pass looks for them no longer than it may, and the next goes on there", func(f *fixture) {
		for i := range 1500 {
			f.put(fmt.Sprintf("s-%04d", i), time.Hour)
		}
		f.inBatches()
		defer f.dieBeside(150, 1)()
		f.onStalled = func(context.Context, session.Query) error { time.Sleep(3 * time.Second); return nil } // fake
		lost := 0
		for range 6 {
			p := f.pass()
			require.Equal(f, 10, p.Cancelled-p.Lost)
			require.Less(f, p.Duration, 90*time.Second)
			lost += p.Lost
		}
		require.Equal(f, 150, lost)
	})
}

// takesPass puts sessions that only look stalled, and returns how many of them a pass cancels.
func (f *fixture) takesPass(silent, count int) int {
	f.Helper()
	for i := range count {
		f.put(fmt.Sprintf("silent-%02d", i), time.Duration(silent+i+1)*time.Hour)
	}
	return f.pass().Cancelled
}

// An endPayload is what the end of a run says of why it ended.
type endPayload struct {
	Reason string
	Lease  *struct {
		ID        string
		Looks     int
		RenewedAt time.Time `json:"renewed_at"`
	}
}

// requireEnd checks that a run has one end, and that its row and the event of that say the reason.
func (f *fixture) requireEnd(runID string, reason watchdog.StopReason) (p endPayload) {
	f.Helper()
	row := f.get(runID)
	require.Equal(f, session.Cancelled, row.Status)
	require.Equal(f, reason, row.Reason)
	events := f.stored(runID)
	ends := 0
	for _, e := range events {
		if e.Type != event.Cancel {
			continue
		}
		ends++
		_, stored := session.StoredEnd(e)
		require.Equal(f, reason, stored)
		require.NoError(f, json.Unmarshal(e.Payload, &p))
	}
	require.Equal(f, 1, ends)
	return p
}

// dies begins a host with runs, dead-000 and so on, that signal for a minute and then die with it, and has a pass that
// finds it dead. The runs are stalled after it.
func (f *fixture) dies(runs int) (renewedAt time.Time) {
	f.Helper()
	h := f.newHost("dead", runs)
	f.advance(time.Minute)
	h.signal(false, h.runs...)
	h.renew()
	renewedAt = time.Now()
	f.advance(5 * time.Minute)
	require.Equal(f, sweep.Tally{LeasesExpired: 1}, f.pass().Tally, "it is not stalled yet")
	require.Equal(f, session.Active, f.status("dead-000"))
	f.advance(5 * time.Minute)
	return renewedAt
}

// TestHostLost: a run whose process died has ended for that, whoever ends it, and one that is only silent has not.
func TestHostLost(t *testing.T) {
	subtest(t, "the threshold decides when, and the row, the events and the log say what was seen", func(f *fixture) {
		renewedAt := f.dies(1)
		p := f.pass()
		require.Equal(f, []string{"dead-000 cancelled"}, outcomes(p))
		require.Equal(f, watchdog.SessionHostLost, p.Cases[0].Reason())
		end := f.requireEnd("dead-000", watchdog.SessionHostLost)
		require.Equal(f, "host_lost", end.Reason)
		require.Equal(f, "dead", end.Lease.ID)
		require.Equal(f, 4, end.Lease.Looks)
		require.True(f, renewedAt.Equal(end.Lease.RenewedAt))
		events := f.stored("dead-000")
		require.Contains(f, string(events[0].Payload), `"reason":"host_lost"`, "the advisory")
		said := f.log.String()
		require.Contains(f, said, `"msg":"a stalled session was cancelled","run":"dead-000","reason":"watchdog_host_lost"`)
		require.Regexp(f, `"attempt":1,"lease":"dead","looks":4,"renewed_at":"`+renewedAt.UTC().Format(time.DateOnly), said)
		require.Regexp(f, `"a lease was not renewed and has expired[^}]*"lease":"dead"[^}]*"looks":4,"renewed_at"`, said)
	})
	for _, living := range []int{0, 1} {
		subtest(t, fmt.Sprint("beside others that live, and as one of a whole fleet: ", living), func(f *fixture) {
			defer f.dieBeside(1, living)()
			require.Equal(f, living == 0, f.pass().FleetDied)
			f.requireEnd("dead-000", watchdog.SessionHostLost)
		})
	}
	subtest(t, "a sweeper that takes over from one which died between claim and cancel says so", func(f *fixture) {
		f.dies(1)
		calls := f.hook(nil)
		f.onCancel = func(context.Context, session.Session) error { return errors.New("killed") }
		f.made = nil
		f.fails("killed")
		require.Len(f, f.claims, 2, "and it noted that it has stopped the agents")
		f.onCancel = nil
		f.advance(time.Minute)
		f.made = nil
		require.Equal(f, 1, f.pass().Cancelled)
		require.EqualValues(f, 1, calls.Load())
		require.Equal(f, 4, f.requireEnd("dead-000", watchdog.SessionHostLost).Lease.Looks)
	})
	subtest(t, "and so does one whose lease expired in a pass that failed then", func(f *fixture) {
		h := f.newHost("dead", 1)
		h.renew()
		f.advance(11 * time.Minute)
		f.Locked = func(string) bool { return true }
		calls := 0
		f.onExpire = func(session.Lease) (int, error) {
			if calls++; calls > 1 {
				return 0, errors.New("down")
			}
			return 0, nil
		}
		f.fails("down")
		f.Locked, f.onExpire = nil, nil
		require.Equal(f, 1, f.pass().Cancelled)
		require.Equal(f, 4, f.requireEnd("dead-000", watchdog.SessionHostLost).Lease.Looks)
	})
	subtest(t, "one that its own process ended for another reason, under the claim, is not this one's", func(f *fixture) {
		f.dies(1)
		f.hook(nil)
		f.made = nil
		f.onCancel = func(context.Context, session.Session) error {
			_, err := f.End(context.Background(), []session.Ending{{
				RunID: "dead-000", Attempt: 1, Status: session.Cancelled, Reason: watchdog.SessionIdleTimeout,
			}})
			return errors.Join(errors.New("connection lost"), err)
		}
		require.Equal(f, []string{"dead-000 spared"}, outcomes(f.pass()))
	})
}

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
	subtest(t, "three that die one after the other within an observation are counted together, always", func(f *fixture) {
		f.pass()
		f.advance(24 * time.Hour)
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
