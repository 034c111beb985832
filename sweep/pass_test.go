package sweep_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

func TestPass(t *testing.T) {
	subtest(t, "cancels the longest stalled first, at most ten, until none is left", func(f *fixture) {
		names := f.putStalled(50)
		for i := range 10_000 {
			f.put(fmt.Sprintf("active-%05d", i), time.Minute)
		}
		for i := range 5 {
			p := f.pass()
			require.Equal(f, names[10*i:10*i+10], f.ended()[10*i:])
			require.Equal(f, sweep.Tally{Checked: 10, Found: 10, Cancelled: 10}, p.Tally)
		}
		require.Equal(f, sweep.Tally{}, f.pass().Tally)
		require.Equal(f, names, f.ended())
		require.Equal(f, sweep.Tally{Checked: 50, Found: 50, Cancelled: 50}, f.sweeper().Stats().Tally)
	})
	subtest(t, "writes the advisory and the cancel of the run's window, once", func(f *fixture) {
		f.put("s-1", 12*time.Minute)
		c := f.pass().Cases[0]
		require.Equal(f, 12*time.Minute, c.Silence)
		require.Equal(f, 10*time.Minute, c.Threshold)
		require.Equal(f, []string{watchdog.EventWarning, watchdog.EventCancel}, f.events("s-1"))
		events := f.stored("s-1")
		stop := &watchdog.Stop{RunID: "s-1", StartedAt: c.Session.StartedAt}
		require.Equal(f, stop.EventID(), events[1].ID)
		var payload map[string]any
		require.NoError(f, json.Unmarshal(events[1].Payload, &payload))
		require.Equal(f, "idle_timeout", payload["reason"])
		require.Equal(f, "system-watchdog", payload["author"])
		require.InDelta(f, 720, payload["measured_seconds"], 0)
		row := f.get("s-1")
		require.Equal(f, watchdog.SessionIdleTimeout, row.Reason)
		require.Zero(f, row.Resumes)
	})
	subtest(t, "the window of a session that no watchdog ran starts at its creation", func(f *fixture) {
		created := time.Now().Add(-time.Hour)
		f.row(session.Session{RunID: "s-1", Status: session.Active, CreatedAt: created, Attempt: 1})
		f.pass()
		events := f.stored("s-1")
		require.Equal(f, (&watchdog.Stop{RunID: "s-1", StartedAt: created.UTC()}).EventID(), events[1].ID)
	})
	subtest(t, "spares a session that wakes up between the page and its cancel", func(f *fixture) {
		f.putStalled(3)
		f.cfg.StopHook = func(_ context.Context, s session.Session) error {
			if s.RunID == "s-01" && s.LastEventAt.Before(time.Now().Add(-30*time.Minute)) {
				time.Sleep(time.Second) // fake time
				f.wake(s.RunID)
			}
			return nil
		}
		p := f.pass()
		require.Equal(f, []string{"s-00 cancelled", "s-01 spared", "s-02 cancelled"}, outcomes(p))
		require.Equal(f, sweep.Tally{Checked: 3, Found: 3, Cancelled: 2, Spared: 1}, p.Tally)
		require.Empty(f, f.events("s-01"))
		f.advance(10*time.Minute + time.Microsecond)
		require.Equal(f, []string{"s-01 cancelled"}, outcomes(f.pass()), "when it has stalled again")
	})
	subtest(t, "reads a stale page again, so that no hook stops the agents of a session that woke up", func(f *fixture) {
		f.putStalled(4)
		var stopped []string
		f.cfg.StopHook = func(_ context.Context, s session.Session) error {
			stopped = append(stopped, s.RunID)
			if s.RunID == "s-00" {
				time.Sleep(10*time.Second + 1) // fake time
				f.wake("s-02")
			}
			return nil
		}
		require.Equal(f, []string{"s-00 cancelled", "s-01 cancelled", "s-03 cancelled"}, outcomes(f.pass()))
		require.Equal(f, []string{"s-00", "s-01", "s-03"}, stopped)
		require.Len(f, f.pages, 2)
	})
	subtest(t, "handles no session twice when it reads a page again", func(f *fixture) {
		f.putStalled(3)
		f.cfg.StopHook = func(context.Context, session.Session) error { time.Sleep(11 * time.Second); return nil }
		f.onCancel = func(context.Context, session.Session) error { return errors.New("poisoned") }
		p, err := f.sweeper().Sweep(f.Context())
		require.Error(f, err)
		require.Equal(f, sweep.Tally{Checked: 3, Found: 3, Failed: 3, Errors: 3}, p.Tally)
	})
	subtest(t, "cancels at most ten though the finder returns more than it was asked for", func(f *fixture) {
		f.putStalled(20)
		f.onPage = func(page *session.Page) {
			all, err := f.Memory.Stalled(context.Background(), session.Query{Threshold: time.Minute, Limit: 20})
			require.NoError(f, err)
			page.Sessions = all.Sessions
		}
		require.Equal(f, sweep.Tally{Checked: 10, Found: 10, Cancelled: 10}, f.pass().Tally)
	})
	subtest(t, "goes on to the next pages past sessions that it cannot cancel", func(f *fixture) {
		names := f.putStalled(25)
		f.cfg.MaxCancellationsPerRun = 5
		f.onCancel = func(_ context.Context, s session.Session) error {
			if s.RunID < "s-07" {
				return errors.New("constraint violated")
			}
			return nil
		}
		p, err := f.sweeper().Sweep(f.Context())
		require.ErrorContains(f, err, "cancel run s-06: constraint violated")
		require.NoError(f, p.Err)
		require.Equal(f, 5, p.Cancelled)
		require.Equal(f, 7, p.Failed)
		require.Equal(f, names[7:12], f.ended())
		require.Equal(f, sweep.Tally{Checked: 12, Found: 12, Cancelled: 5, Deferred: 7}, f.pass().Tally)
	})
}

func TestDryRun(t *testing.T) {
	inBubble(t, func(f *fixture) {
		names := f.putStalled(12)
		f.cfg.DryRun, f.cfg.Grace = true, time.Minute
		f.cfg.StopHook = func(context.Context, session.Session) error { f.Error("a dry run stopped agents"); return nil }
		for range 2 {
			p := f.pass()
			require.Len(f, p.Cases, 10)
			require.Equal(f, sweep.Tally{Checked: 10, Found: 10}, p.Tally)
			require.Equal(f, "s-00 would_cancel", outcomes(p)[0])
			require.True(f, p.DryRun)
		}
		for _, name := range names {
			require.Equal(f, session.Active, f.status(name))
			require.Empty(f, f.events(name))
		}
		require.Equal(f, 20, strings.Count(f.log.String(), "would be cancelled"))
	})
}
