package sweep_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

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
	row, err := f.Memory.Session(context.Background(), runID)
	require.NoError(f, err)
	require.Equal(f, session.Cancelled, row.Status)
	require.Equal(f, reason, row.Reason)
	events, err := f.Read(context.Background(), watchdog.AggregateType, runID)
	require.NoError(f, err)
	ends := 0
	for _, e := range events {
		if e.Type != watchdog.EventCancel {
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

// sweeps has a pass of another sweeper.
func (f *fixture) sweeps(canceller sweep.Canceller) sweep.Pass {
	f.Helper()
	s, err := sweep.New(f, canceller, f.cfg)
	require.NoError(f, err)
	p, err := s.Sweep(f.Context())
	require.NoError(f, err)
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
	t.Run("the threshold decides when, and the row, the events and the log say what was seen", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			renewedAt := f.dies(1)
			p := f.pass()
			require.Equal(f, []string{"dead-000 cancelled"}, outcomes(p))
			require.Equal(f, watchdog.SessionHostLost, p.Cases[0].Reason())
			end := f.requireEnd("dead-000", watchdog.SessionHostLost)
			require.Equal(f, "host_lost", end.Reason)
			require.Equal(f, "dead", end.Lease.ID)
			require.Equal(f, 4, end.Lease.Looks)
			require.True(f, renewedAt.Equal(end.Lease.RenewedAt))
			events, err := f.Read(f.Context(), watchdog.AggregateType, "dead-000")
			require.NoError(f, err)
			require.Contains(f, string(events[0].Payload), `"reason":"host_lost"`, "the advisory")
			said := f.log.String()
			require.Contains(f, said, `"msg":"a stalled session was cancelled","run":"dead-000","reason":"watchdog_host_lost"`)
			require.Regexp(f, `"attempt":1,"lease":"dead","looks":4,"renewed_at":"`+renewedAt.UTC().Format(time.DateOnly), said)
			require.Regexp(f, `"a lease was not renewed and has expired[^}]*"lease":"dead"[^}]*"looks":4,"renewed_at"`, said)
		})
	})
	t.Run("beside others that live, and as one of a whole fleet", func(t *testing.T) {
		for _, living := range []int{0, 1} {
			inBubble(t, func(f *fixture) {
				defer f.dieBeside(1, living)()
				require.Equal(f, living == 0, f.pass().FleetDied)
				f.requireEnd("dead-000", watchdog.SessionHostLost)
			})
		}
	})
	for name, set := range map[string]func(f *fixture) sweep.Canceller{
		"one by one":        func(f *fixture) sweep.Canceller { return f },
		"together":          func(f *fixture) sweep.Canceller { return f.inBatches() },
		"after its grace":   func(f *fixture) sweep.Canceller { f.cfg.Grace = time.Minute; return f },
		"after a stop hook": func(f *fixture) sweep.Canceller { f.hook(nil); return f },
	} {
		t.Run("another sweeper says so much later, "+name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				canceller := set(f)
				f.dies(3)
				f.advance(24 * time.Hour)
				leases, err := f.ObserveLeases(f.Context(), nil)
				require.NoError(f, err)
				require.Empty(f, leases, "nothing but the row remembers it")
				for range 2 {
					f.sweeps(canceller)
					f.advance(time.Minute)
				}
				for _, runID := range []string{"dead-000", "dead-001", "dead-002"} {
					require.Equal(f, "dead", f.requireEnd(runID, watchdog.SessionHostLost).Lease.ID)
				}
			})
		})
	}
	t.Run("a sweeper that takes over from one which died between claim and cancel says so", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			f.dies(1)
			calls := f.hook(nil)
			f.onCancel = func(context.Context, session.Session) error { return errors.New("killed") }
			f.made = nil
			_, err := f.sweeper().Sweep(f.Context())
			require.ErrorContains(f, err, "killed")
			require.Len(f, f.claims, 2, "and it noted that it has stopped the agents")
			f.onCancel = nil
			f.advance(time.Minute)
			require.Equal(f, 1, f.sweeps(f).Cancelled)
			require.EqualValues(f, 1, calls.Load())
			require.Equal(f, 4, f.requireEnd("dead-000", watchdog.SessionHostLost).Lease.Looks)
		})
	})
	t.Run("a row that was locked when its lease expired says it, too", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			locked := true
			f.Locked = func(string) bool { return locked }
			f.dies(1)
			require.Equal(f, "dead", f.leaseOf("dead-000"))
			locked = false
			require.Equal(f, 1, f.pass().Cancelled)
			require.Equal(f, 4, f.requireEnd("dead-000", watchdog.SessionHostLost).Lease.Looks)
		})
	})
	t.Run("and so does one whose lease expired in a pass that failed then", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
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
			_, err := f.sweeper().Sweep(f.Context())
			require.ErrorContains(f, err, "down")
			f.Locked, f.onExpire = nil, nil
			require.Equal(f, 1, f.pass().Cancelled)
			require.Equal(f, 4, f.requireEnd("dead-000", watchdog.SessionHostLost).Lease.Looks)
		})
	})
	t.Run("where nothing but that is known, the end names no lease", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			f.dies(1)
			row, err := f.Session(f.Context(), "dead-000")
			require.NoError(f, err)
			row.Lost, row.Expired = true, session.ExpiredLease{}
			f.row(row)
			f.pass()
			require.Nil(f, f.requireEnd("dead-000", watchdog.SessionHostLost).Lease)
		})
	})
}

// TestNotHostLost: silence alone is what it was.
func TestNotHostLost(t *testing.T) {
	requireIdle := func(f *fixture, runID string) {
		f.Helper()
		p := f.pass()
		require.Equal(f, []string{runID + " cancelled"}, outcomes(p))
		require.Equal(f, watchdog.SessionIdleTimeout, p.Cases[0].Reason())
		require.Nil(f, f.requireEnd(runID, watchdog.SessionIdleTimeout).Lease)
		require.NotContains(f, f.log.String(), "host_lost")
	}
	t.Run("of a run whose host lives", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			h := f.newHost("live", 1)
			defer h.live()()
			h.signal(true, h.runs...)
			f.advance(11 * time.Minute)
			requireIdle(f, "live-000")
		})
	})
	t.Run("of a row that was never leased", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			f.put("s-1", time.Hour)
			requireIdle(f, "s-1")
		})
	})
	t.Run("of a run that its process claimed back", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			f.dies(1)
			back := f.newHost("back", 0)
			defer back.live()()
			back.signal(true, "dead-000")
			f.advance(11 * time.Minute)
			requireIdle(f, "dead-000")
		})
	})
	t.Run("of the next attempt of a run, which another program makes", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			f.dies(1)
			_, _, err := f.Attach(f.Context(), session.Session{RunID: "dead-000", StartedAt: time.Now()})
			require.NoError(f, err)
			f.advance(11 * time.Minute)
			requireIdle(f, "dead-000")
		})
	})
}

// TestHostLostInDoubt: a cancel whose answer was lost is found by its reason, too.
func TestHostLostInDoubt(t *testing.T) {
	lost := errors.New("connection lost")
	t.Run("by the pass itself", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			f.dies(1)
			f.after = func() error { return lost }
			require.Equal(f, []string{"dead-000 cancelled"}, outcomes(f.pass()))
			f.requireEnd("dead-000", watchdog.SessionHostLost)
		})
	})
	t.Run("by the next pass", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			f.dies(1)
			f.after = func() error { return lost }
			f.onSession = func(context.Context) error { return errors.New("down") }
			_, err := f.sweeper().Sweep(f.Context())
			require.ErrorIs(f, err, lost)
			f.onSession, f.after = nil, nil
			require.Equal(f, sweep.Tally{Cancelled: 1}, f.pass().Tally)
			f.requireEnd("dead-000", watchdog.SessionHostLost)
		})
	})
	t.Run("one that its own process ended for another reason, under the claim, is not this one's", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			f.dies(1)
			f.hook(nil)
			f.made = nil
			f.onCancel = func(context.Context, session.Session) error {
				_, err := f.End(context.Background(), []session.Ending{{
					RunID: "dead-000", Attempt: 1, Status: session.Cancelled, Reason: watchdog.SessionIdleTimeout,
				}})
				return errors.Join(lost, err)
			}
			require.Equal(f, []string{"dead-000 spared"}, outcomes(f.pass()))
		})
	})
}

// TestEventIDs: what a sweeper knows of why a run stalled is no part of the IDs of its events.
func TestEventIDs(t *testing.T) {
	before := stalledRun()
	now := before
	now.HostLost, now.Expired = true, session.ExpiredLease{ID: "lease-1", Looks: 4, RenewedAt: noon}
	require.Equal(t, before.WarningEvent().ID, now.WarningEvent().ID)
	require.NotEqual(t, before.WarningEvent().Payload, now.WarningEvent().Payload)
	for i, e := range now.CancelEvents() {
		require.Equal(t, before.CancelEvents()[i].ID, e.ID)
		require.Contains(t, string(e.Payload), `"reason":"host_lost"`)
	}
}
