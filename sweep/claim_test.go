package sweep_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// hook has the stop hook count its calls, and fail as told.
func (f *fixture) hook(err error) (calls *atomic.Int32) {
	calls = &atomic.Int32{}
	f.cfg.StopHook = func(context.Context, session.Session) error {
		calls.Add(1)
		return err
	}
	return calls
}

func TestClaim(t *testing.T) {
	subtest(t, "comes before the hook, lasts as long as all may take, and is what cancels", func(f *fixture) {
		f.putStalled(2)
		f.cfg.StopHook = func(_ context.Context, s session.Session) error {
			row := f.get(s.RunID)
			require.Equal(f, f.claims[len(f.claims)-1].By, row.Claim)
			return nil
		}
		p := f.pass()
		require.Equal(f, 43*time.Second, f.claims[0].For)
		require.NotEqual(f, f.claims[0].By, f.claims[1].By)
		stop := &watchdog.Stop{RunID: "s-00", StartedAt: p.Cases[0].Session.StartedAt}
		require.Equal(f, stop.EventID(), f.claims[0].EndID)
		row := f.get("s-00")
		require.Equal(f, f.claims[0].By, row.Claim)
	})
	subtest(t, "is not made without a hook", func(f *fixture) {
		f.putStalled(1)
		require.Equal(f, 1, f.pass().Cancelled)
		require.Empty(f, f.claims)
	})
	subtest(t, "of another sweeper defers the session until it ends", func(f *fixture) {
		f.putStalled(1)
		calls := f.hook(nil)
		s := f.get("s-00")
		_, err := f.Memory.Claim(f.Context(), s, session.ClaimRequest{By: "dead sweeper", For: time.Minute})
		require.NoError(f, err)
		f.advance(time.Minute - time.Second)
		require.Equal(f, sweep.Tally{Checked: 1, Found: 1, Deferred: 1}, f.pass().Tally)
		require.Zero(f, calls.Load())
		f.advance(time.Second)
		require.Equal(f, 1, f.pass().Cancelled)
		require.EqualValues(f, 1, calls.Load())
	})
	subtest(t, "of a session that changed spares it", func(f *fixture) {
		f.putStalled(1)
		calls := f.hook(nil)
		f.onClaim = func(context.Context, session.Session) error { f.wake("s-00"); return nil }
		require.Equal(f, []string{"s-00 spared"}, outcomes(f.pass()))
		require.Zero(f, calls.Load())
	})
	subtest(t, "on a row that is locked is tried again", func(f *fixture) {
		f.putStalled(1)
		calls := f.hook(nil)
		f.onClaim = func(context.Context, session.Session) error { return session.ErrLocked }
		require.Equal(f, sweep.Tally{Checked: 1, Found: 1, Deferred: 1}, f.pass().Tally)
		f.onClaim = nil
		require.Equal(f, 1, f.pass().Cancelled)
		require.EqualValues(f, 1, calls.Load())
	})
	subtest(t, "whose answer was lost is made again under the same name", func(f *fixture) {
		f.putStalled(1)
		calls := f.hook(nil)
		f.onClaim = func(_ context.Context, s session.Session) error {
			_, err := f.Memory.Claim(f.Context(), s, f.claims[0])
			require.NoError(f, err)
			return errors.New("connection lost")
		}
		p, err := f.sweeper().Sweep(f.Context())
		require.ErrorContains(f, err, "claim run s-00: connection lost")
		require.Equal(f, []string{"s-00 failed"}, outcomes(p))
		require.Zero(f, calls.Load())
		f.onClaim, f.cfg.Interval = nil, time.Second
		f.advance(150 * time.Second)
		require.Equal(f, 1, f.pass().Cancelled)
		require.Equal(f, f.claims[0].By, f.claims[1].By)
		require.EqualValues(f, 1, calls.Load())
	})
	subtest(t, "a canceller that cannot claim has the hook called without", func(f *fixture) {
		f.putStalled(1)
		calls := f.hook(nil)
		s, err := sweep.New(f, noAppend{f}, f.cfg)
		require.NoError(f, err)
		p, err := s.Sweep(f.Context())
		require.NoError(f, err)
		require.Equal(f, 1, p.Cancelled)
		require.EqualValues(f, 1, calls.Load())
		require.Empty(f, f.claims)
	})
}

// TestClaimRace has two sweepers on two hosts find one session at once.
func TestClaimRace(t *testing.T) {
	for round := range 200 {
		inBubble(t, func(f *fixture) {
			f.put("s-1", time.Hour)
			var hooks, cancelled atomic.Int32
			var racing sync.WaitGroup
			for i := range 2 {
				cfg := f.cfg
				cfg.StopHook = func(context.Context, session.Session) error {
					hooks.Add(1)
					time.Sleep(time.Duration(1+(round+i)%3) * time.Second)
					return nil
				}
				s, err := sweep.New(f, f, cfg)
				require.NoError(f, err)
				racing.Go(func() {
					for range 3 {
						p, err := s.Sweep(context.Background())
						if err != nil {
							f.Error(err)
						}
						cancelled.Add(int32(p.Cancelled))
						time.Sleep(time.Second)
					}
				})
			}
			racing.Wait()
			synctest.Wait()
			require.EqualValues(f, 1, hooks.Load())
			require.EqualValues(f, 1, cancelled.Load())
		})
	}
}

// storedEnd stores the end that the run's own process wrote before it died.
func (f *fixture) storedEnd(runID, kind, payload string) {
	s := f.get(runID)
	require.NoError(f, f.Append(context.Background(), watchdog.Event{
		ID:            (&watchdog.Stop{RunID: runID, StartedAt: s.StartedAt}).EventID(),
		AggregateType: watchdog.AggregateType, AggregateID: runID, Type: kind,
		Payload: json.RawMessage(payload), Timestamp: time.Now(),
	}))
}

func TestEndStored(t *testing.T) {
	never := func(f *fixture) {
		f.cfg.Alert = sweep.Alert{Within: time.Hour, Func: func(context.Context, int) { f.Error("alerted") }}
		f.cfg.Resume = sweep.ResumePolicy{Max: 3, Start: func(context.Context, session.Session) error {
			f.Error("resumed")
			return nil
		}}
	}
	for _, hooked := range []bool{true, false} {
		subtest(t, fmt.Sprintf("is written down, not stopped and not resumed, with a hook: %v", hooked), func(f *fixture) {
			f.putStalled(2)
			f.storedEnd("s-00", watchdog.EventCancel, `{"reason":"wall_clock_exceeded"}`)
			f.storedEnd("s-01", watchdog.EventComplete, `{"reason":"complete"}`)
			never(f)
			if hooked {
				f.cfg.StopHook = func(context.Context, session.Session) error { f.Error("stopped"); return nil }
			}
			p := f.pass()
			require.Equal(f, []string{"s-00 end_stored", "s-01 end_stored"}, outcomes(p))
			require.Equal(f, sweep.Tally{Checked: 2, Found: 2, EndStored: 2}, p.Tally)
			row := f.get("s-00")
			require.Equal(f, watchdog.WallClockExceeded, row.Reason)
			require.Equal(f, session.Finished, f.status("s-01"))
			require.Len(f, f.events("s-00"), 1)
			_, text := f.health()
			require.Contains(f, text, `"end_stored": 2`)
		})
	}
	subtest(t, "after the claim it is written down, too", func(f *fixture) {
		f.putStalled(1)
		never(f)
		f.cfg.StopHook = func(context.Context, session.Session) error {
			f.storedEnd("s-00", watchdog.EventComplete, `{"reason":"complete"}`)
			return nil
		}
		require.Equal(f, []string{"s-00 end_stored"}, outcomes(f.pass()))
		require.Equal(f, session.Finished, f.status("s-00"))
	})
}

// TestStopOnce: a session that cannot be cancelled has its agents stopped once in each silence, by whatever sweeper.
func TestStopOnce(t *testing.T) {
	poisoned := errors.New("poisoned")
	other := func(f *fixture) *sweep.Sweeper {
		s, err := sweep.New(f, f, f.cfg)
		require.NoError(f, err)
		return s
	}
	for _, stopFailed := range []error{nil, errors.New("no such agent")} {
		subtest(t, fmt.Sprintf("also after the claim has ended, with the hook's error %v", stopFailed), func(f *fixture) {
			f.putStalled(1)
			calls := f.hook(stopFailed)
			f.onCancel = func(context.Context, session.Session) error { return poisoned }
			for range 5 {
				_, err := other(f).Sweep(f.Context()) // each remembers nothing
				require.ErrorIs(f, err, poisoned)
				require.EqualValues(f, 1, calls.Load())
				f.advance(time.Hour)
			}
			f.onCancel = nil
			p, err := other(f).Sweep(f.Context())
			require.NoError(f, err)
			require.Equal(f, []string{"s-00 cancelled"}, outcomes(p))
			require.EqualValues(f, 1, calls.Load())
			require.Equal(f, stopFailed != nil, p.Cases[0].StopFailed)
			row := f.get("s-00")
			require.Equal(f, stopFailed != nil, row.StopFailed)
			events := f.stored("s-00")
			require.Equal(f, stopFailed != nil, strings.Contains(string(events[1].Payload), `"stop_failed":true`))
		})
	}
	subtest(t, "a sweeper without a hook says that the stop failed, too", func(f *fixture) {
		f.putStalled(1)
		f.hook(errors.New("no such agent"))
		f.onCancel = func(context.Context, session.Session) error { return poisoned }
		_, err := f.sweeper().Sweep(f.Context())
		require.ErrorIs(f, err, poisoned)
		f.cfg.StopHook, f.onCancel = nil, nil
		p, err := other(f).Sweep(f.Context())
		require.NoError(f, err)
		require.True(f, p.Cases[0].StopFailed)
	})
	subtest(t, "a sweeper that judged the session before calls no hook", func(f *fixture) {
		f.putStalled(1)
		calls := f.hook(nil)
		f.onCancel = func(context.Context, session.Session) error { return poisoned }
		f.onPage = func(*session.Page) {
			f.onPage = nil
			_, err := other(f).Sweep(f.Context())
			require.ErrorIs(f, err, poisoned)
		}
		require.Equal(f, []string{"s-00 spared"}, outcomes(f.pass()))
		require.EqualValues(f, 1, calls.Load())
	})
	subtest(t, "a session that woke up and stalled again has its agents stopped again", func(f *fixture) {
		f.putStalled(1)
		calls := f.hook(nil)
		f.onCancel = func(context.Context, session.Session) error { return poisoned }
		_, err := other(f).Sweep(f.Context())
		require.ErrorIs(f, err, poisoned)
		f.wake("s-00")
		f.advance(time.Hour)
		f.onCancel = nil
		p, err := other(f).Sweep(f.Context())
		require.NoError(f, err)
		require.Equal(f, 1, p.Cancelled)
		require.EqualValues(f, 2, calls.Load())
	})
	subtest(t, "also if the cancel failed because the row was locked for a moment", func(f *fixture) {
		f.putStalled(1)
		calls := f.hook(nil)
		f.onCancel = func(context.Context, session.Session) error { return session.ErrLocked }
		require.Equal(f, 1, f.pass().Deferred)
		f.onCancel = nil
		p, err := other(f).Sweep(f.Context())
		require.NoError(f, err)
		require.Equal(f, 1, p.Cancelled, "the claim has ended, too")
		require.EqualValues(f, 1, calls.Load())
	})
}
