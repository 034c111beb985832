package sweep_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/golden"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

func TestStopHook(t *testing.T) {
	for name, c := range map[string]struct {
		hook func(ctx context.Context) error
		says string
		took time.Duration
	}{
		"fails": {
			func(context.Context) error { return errors.New("no such agent") }, "no such agent", 0,
		},
		"panics": {
			func(context.Context) error { panic(errors.New("a secret")) }, "it panicked with a *errors.errorString", 0,
		},
		"ends its goroutine": {
			func(context.Context) error { runtime.Goexit(); return nil }, "it ended its goroutine", 0,
		},
		"hangs": {
			func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
			"context deadline exceeded", 30 * time.Second,
		},
		"hangs and returns nil": {
			func(ctx context.Context) error { <-ctx.Done(); return nil }, "", 30 * time.Second,
		},
		"never returns": {
			func(context.Context) error { time.Sleep(time.Hour); return nil },
			"it has not returned and is left behind", 31 * time.Second,
		},
	} {
		subtest(t, name+": the session and the next one are cancelled all the same", func(f *fixture) {
			f.putStalled(2)
			f.cfg.StopHook = func(ctx context.Context, s session.Session) error {
				if s.RunID == "s-00" {
					return c.hook(ctx)
				}
				return nil
			}
			began := time.Now()
			p, err := f.sweeper().Sweep(f.Context())
			require.Equal(f, c.took, time.Since(began))
			require.Equal(f, []string{"s-00 cancelled", "s-01 cancelled"}, outcomes(p))
			require.Equal(f, time.Hour+c.took, p.Cases[0].Silence)
			events, readErr := f.Read(f.Context(), event.AggregateType, "s-00")
			require.NoError(f, readErr)
			require.Equal(f, began.Add(c.took).UTC(), events[1].Timestamp)
			if c.says == "" {
				require.NoError(f, err)
				return
			}
			require.ErrorContains(f, err, "stop what works on run s-00: ")
			require.ErrorContains(f, err, c.says)
			require.NotContains(f, err.Error(), "secret")
			require.Equal(f, sweep.Tally{Checked: 2, Found: 2, Cancelled: 2, Errors: 1}, p.Tally)
			f.advance(time.Hour)
		})
	}
}

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
		p := f.fails("claim run s-00: connection lost")
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
		f.use(noAppend{f})
		require.Equal(f, 1, f.pass().Cancelled)
		require.EqualValues(f, 1, calls.Load())
		require.Empty(f, f.claims)
	})
}

// storedEnd stores the end that the run's own process wrote before it died.
func (f *fixture) storedEnd(runID, kind, payload string) {
	s := f.get(runID)
	require.NoError(f, f.Append(context.Background(), watchdog.Event{
		ID:            (&watchdog.Stop{RunID: runID, StartedAt: s.StartedAt}).EventID(),
		AggregateType: event.AggregateType, AggregateID: runID, Type: kind,
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
			f.storedEnd("s-00", event.Cancel, `{"reason":"wall_clock_exceeded"}`)
			f.storedEnd("s-01", event.Complete, `{"reason":"complete"}`)
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
			f.storedEnd("s-00", event.Complete, `{"reason":"complete"}`)
			return nil
		}
		require.Equal(f, []string{"s-00 end_stored"}, outcomes(f.pass()))
		require.Equal(f, session.Finished, f.status("s-00"))
	})
}

// TestStopOnce: a session that cannot be cancelled has its agents stopped once in each silence, by whatever sweeper.
func TestStopOnce(t *testing.T) {
	for _, stopFailed := range []error{nil, errors.New("no such agent")} {
		subtest(t, fmt.Sprintf("also after the claim has ended, with the hook's error %v", stopFailed), func(f *fixture) {
			f.putStalled(1)
			calls := f.hook(stopFailed)
			f.poisoned = every
			for range 5 {
				f.made = nil // each remembers nothing
				f.failsFor(errPoisoned)
				require.EqualValues(f, 1, calls.Load())
				f.advance(time.Hour)
			}
			f.poisoned, f.made = nil, nil
			p := f.pass()
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
		f.poisoned = every
		f.failsFor(errPoisoned)
		f.cfg.StopHook, f.poisoned, f.made = nil, nil, nil
		require.True(f, f.pass().Cases[0].StopFailed)
	})
}

func TestGrace(t *testing.T) {
	warned := func(f *fixture) { f.cfg.Grace = time.Minute }
	subtest(t, "starts with a warning and ends with the cancel, to the nanosecond", func(f *fixture) {
		warned(f)
		f.put("s-1", time.Hour)
		stop := f.run()
		require.Equal(f, []string{event.Warning}, f.events("s-1"))
		require.Equal(f, time.Now().Add(time.Minute), f.sweeper().Stats().Next)
		f.advance(time.Minute - 1)
		require.Empty(f, f.ended())
		f.advance(1)
		require.Equal(f, []string{"s-1"}, f.ended())
		require.Equal(f, []string{event.Warning, event.Warning, event.Cancel}, f.events("s-1"))
		events := f.stored("s-1")
		require.Contains(f, string(events[2].Payload), `"attempt":2`)
		require.Equal(f, time.Now().Add(5*time.Minute), f.sweeper().Stats().Next)
		stop()
		require.Equal(f, sweep.Tally{Checked: 2, Found: 2, Cancelled: 1, Warned: 1}, f.sweeper().Stats().Tally)
	})
	subtest(t, "is void after an event, and starts again when the session stalls again", func(f *fixture) {
		warned(f)
		f.put("s-1", time.Hour)
		stop := f.run()
		f.advance(30 * time.Second)
		f.wake("s-1")
		f.advance(16 * time.Minute) // stalled after 10 and a half, seen after 11, and warned
		require.Equal(f, []string{event.Warning, event.Warning}, f.events("s-1")[:2])
		require.Equal(f, 2, f.sweeper().Stats().Warned)
		require.Equal(f, []string{"s-1"}, f.ended())
		stop()
	})
	subtest(t, "of a pass of Sweep makes the next pass of Run come sooner", func(f *fixture) {
		warned(f)
		stop := f.run()
		f.put("s-1", time.Hour)
		f.pass()
		f.advance(time.Minute)
		stop()
		require.Equal(f, []string{"s-1"}, f.ended())
	})
	subtest(t, "those that end within a second have one pass", func(f *fixture) {
		warned(f)
		f.put("s-1", time.Hour)
		f.pass()
		f.advance(time.Second)
		f.put("s-2", time.Hour)
		f.pass()
		defer f.run()()
		require.Equal(f, time.Now().Add(time.Minute), f.sweeper().Stats().Next)
	})
	subtest(t, "a pass warns at most as many as it may cancel, and can do both", func(f *fixture) {
		warned(f)
		names := f.putStalled(25)
		require.Equal(f, sweep.Tally{Checked: 10, Found: 10, Warned: 10}, f.pass().Tally)
		f.advance(time.Minute)
		require.Equal(f, sweep.Tally{Checked: 20, Found: 20, Warned: 10, Cancelled: 10}, f.pass().Tally)
		f.advance(time.Minute)
		require.Equal(f, sweep.Tally{Checked: 15, Found: 15, Warned: 5, Cancelled: 10}, f.pass().Tally)
		f.advance(time.Minute)
		require.Equal(f, sweep.Tally{Checked: 5, Found: 5, Cancelled: 5}, f.pass().Tally)
		require.Equal(f, names, f.ended())
	})
	subtest(t, "passes come no faster when more are due than a pass may cancel", func(f *fixture) {
		warned(f)
		f.cfg.MaxCancellationsPerRun = 1
		f.putStalled(4)
		for range 4 {
			require.Equal(f, 1, f.pass().Warned)
		}
		f.advance(time.Minute)
		stop := f.run()
		f.advance(4 * time.Minute)
		require.Len(f, f.ended(), 1)
		require.Equal(f, 3, f.sweeper().Stats().Last.Deferred)
		f.advance(15 * time.Minute)
		stop()
		require.Len(f, f.ended(), 4)
	})
	subtest(t, "that is over is not delayed by one that has to start", func(f *fixture) {
		warned(f)
		f.cfg.MaxCancellationsPerRun = 1
		f.put("s-1", time.Hour)
		f.pass()
		f.advance(time.Minute)
		f.put("s-0", 2*time.Hour)
		require.Equal(f, []string{"s-0 warned", "s-1 cancelled"}, outcomes(f.pass()))
	})
	subtest(t, "does not start if the warning cannot be recorded", func(f *fixture) {
		warned(f)
		f.put("s-1", time.Hour)
		f.poisoned = every
		p := f.fails("warn run s-1: poisoned")
		require.Equal(f, sweep.Tally{Checked: 1, Found: 1, Failed: 1, Errors: 1}, p.Tally)
		require.Empty(f, f.ended())
	})
}

// TestGraceOneShot has each pass by a sweeper that knows nothing of those before, as a scheduled job does.
func TestGraceOneShot(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.put("s-1", time.Hour)
		f.newHost("dead", 1)
		f.cfg.Grace = 15 * time.Minute
		var all []string
		for range 20 {
			f.made = nil
			began := time.Now()
			all = append(all, outcomes(f.pass())...)
			f.advance(time.Minute - time.Since(began))
		}
		require.Equal(f, []string{"s-1 warned", "dead-000 warned", "s-1 cancelled"}, all)
		require.Equal(f, []string{event.Warning, event.Warning, event.Cancel}, f.events("s-1"))
		f.advance(15 * time.Minute)
		f.made = nil
		require.Equal(f, []string{"dead-000 cancelled"}, outcomes(f.pass()))
	})
	subtest(t, "a canceller without Warn leaves the grace to the sweeper that warned", func(f *fixture) {
		f.put("s-1", time.Hour)
		f.cfg.Grace = time.Minute
		f.use(appends{f, f})
		var all []string
		for range 3 {
			all = append(all, outcomes(f.pass())...)
			f.advance(30 * time.Second)
		}
		require.Equal(f, []string{"s-1 warned", "s-1 cancelled"}, all)
	})
	subtest(t, "another sweeper comes when the grace ends", func(f *fixture) {
		f.put("s-1", time.Hour)
		f.cfg.Grace = time.Minute
		f.pass()
		f.made = nil
		f.advance(20 * time.Second)
		stop := f.run()
		f.advance(40 * time.Second)
		stop()
		require.Equal(f, []string{"s-1"}, f.ended())
	})
	subtest(t, "two silences under one lease have a warning each", func(f *fixture) {
		h := f.newHost("live", 1)
		f.cfg.Grace = time.Minute
		for range 2 {
			f.advance(time.Minute)
			h.signal(true, "live-000")
			f.advance(11 * time.Minute)
			h.renew()
			stop := h.live()
			require.Equal(f, []string{"live-000 warned"}, outcomes(f.pass()))
			stop()
		}
		require.Len(f, f.events("live-000"), 2)
	})
}

// appends is a canceller that can only append a warning.
type appends struct {
	sweep.Canceller
	events watchdog.EventStore
}

func (a appends) Append(ctx context.Context, events ...watchdog.Event) error {
	return a.events.Append(ctx, events...)
}

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// stalledRun had its last event a minute after noon, and was then silent for twelve minutes and half a second.
func stalledRun() sweep.StalledRun {
	return sweep.StalledRun{
		RunID: "s-1", StartedAt: noon, LastEventAt: noon.Add(time.Minute),
		DecidedAt: noon.Add(13*time.Minute + 500*time.Millisecond),
		Silence:   12*time.Minute + 500*time.Millisecond, Threshold: 10 * time.Minute,
	}
}

func TestStalledRunGolden(t *testing.T) {
	layer := stalledRun()
	layer.RunID, layer.Parent, layer.LastEventAt, layer.Warned = "s-1/build", "s-1", time.Time{}, true
	unstopped := stalledRun()
	unstopped.StopFailed = true
	lost := unstopped
	lost.HostLost, lost.Expired = true, session.ExpiredLease{ID: "5f0a", Looks: 4, RenewedAt: noon.Add(time.Minute)}
	unknown := stalledRun()
	unknown.HostLost = true
	for name, events := range map[string][]watchdog.Event{
		"cancel_stop_failed":  unstopped.CancelEvents(),
		"cancel":              stalledRun().CancelEvents(),
		"cancel_warned_layer": layer.CancelEvents(),
		"warning":             {stalledRun().WarningEvent()},
		"cancel_host_lost":    lost.CancelEvents(),
		"cancel_lost_before":  unknown.CancelEvents(),
		"warning_host_lost":   {lost.WarningEvent()},
	} {
		t.Run(name, func(t *testing.T) {
			var all strings.Builder
			for _, e := range events {
				require.NoError(t, e.Validate())
				text, err := json.Marshal(e)
				require.NoError(t, err)
				all.Write(append(text, '\n'))
			}
			golden.Compare(t, "testdata/"+name+".json", all.String())
		})
	}
}

func TestStalledRun(t *testing.T) {
	t.Run("a cancel has the ID of the stop that it is, whatever zone and digits its start has", func(t *testing.T) {
		stop := &watchdog.Stop{RunID: "s-1", StartedAt: noon}
		run := stalledRun()
		run.StartedAt = noon.Add(999).In(time.FixedZone("there", 3600))
		require.Equal(t, stop.EventID(), run.CancelEvents()[1].ID)
		require.Equal(t, stalledRun().CancelEvents()[1].ID, run.CancelEvents()[1].ID)
	})
	t.Run("each silence has one warning", func(t *testing.T) {
		first, again, woken := stalledRun(), stalledRun(), stalledRun()
		again.DecidedAt, again.Silence = again.DecidedAt.Add(time.Second), again.Silence+time.Second
		woken.LastEventAt = woken.LastEventAt.Add(time.Microsecond)
		require.Equal(t, first.WarningEvent().ID, again.WarningEvent().ID)
		require.NotEqual(t, first.WarningEvent().ID, woken.WarningEvent().ID)
		require.NotEqual(t, first.WarningEvent().ID, first.CancelEvents()[0].ID)
	})
}

// A live run takes up the cancel, with the silence and the threshold.
func TestStalledRunLive(t *testing.T) {
	inBubble(t, func(f *fixture) {
		start := time.Now().Add(789 * time.Nanosecond) // no store keeps nanoseconds
		wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: start},
			watchdog.Config{Store: f.Memory, Logger: f.cfg.Logger})
		require.NoError(f, err)
		defer wd.Close()
		swept := stalledRun()
		swept.StartedAt, swept.DecidedAt = wd.StartedAt(), time.Now()
		require.NoError(f, f.Append(context.Background(), swept.CancelEvents()...))
		stop, err := wd.Sync(context.Background())
		require.NoError(f, err)
		require.Equal(f, watchdog.SessionIdleTimeout, stop.Code)
		require.Equal(f, swept.Silence, stop.Elapsed)
		require.Equal(f, swept.Threshold, stop.Budget)
		require.Equal(f, swept.DecidedAt.UTC(), stop.FiredAt)
	})
}
