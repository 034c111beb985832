package sweep_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// stalledRun had its last event a minute after noon, and was then silent for twelve minutes and half a second.
func stalledRun() sweep.StalledRun {
	return sweep.StalledRun{
		RunID: "s-1", StartedAt: noon, LastEventAt: noon.Add(time.Minute),
		DecidedAt: noon.Add(13*time.Minute + 500*time.Millisecond),
		Silence:   12*time.Minute + 500*time.Millisecond, Threshold: 10 * time.Minute,
	}
}

// stalled returns the run of a live watchdog as a sweeper would find it now.
func stalled(wd *watchdog.Watchdog) sweep.StalledRun {
	run := stalledRun()
	run.RunID, run.StartedAt, run.DecidedAt = wd.ID(), wd.StartedAt(), time.Now()
	return run
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
			golden(t, name+".json", all.String())
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
	t.Run("a cancel is read after its advisory, whatever their IDs are", func(t *testing.T) {
		for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
			run := stalledRun()
			run.RunID = id
			events := run.CancelEvents()
			slices.SortFunc(events, watchdog.Event.Compare)
			require.Equal(t, watchdog.EventWarning, events[0].Type)
			require.Equal(t, watchdog.EventCancel, events[1].Type)
		}
	})
	t.Run("each silence has one warning", func(t *testing.T) {
		first, again, woken := stalledRun(), stalledRun(), stalledRun()
		again.DecidedAt, again.Silence = again.DecidedAt.Add(time.Second), again.Silence+time.Second
		woken.LastEventAt = woken.LastEventAt.Add(time.Microsecond)
		require.Equal(t, first.WarningEvent().ID, again.WarningEvent().ID)
		require.NotEqual(t, first.WarningEvent().ID, woken.WarningEvent().ID)
		require.NotEqual(t, first.WarningEvent().ID, first.CancelEvents()[0].ID)
	})
	t.Run("a session without an event has no last_event_at", func(t *testing.T) {
		run := stalledRun()
		run.LastEventAt = time.Time{}
		for _, e := range append(run.CancelEvents(), run.WarningEvent()) {
			require.NotContains(t, string(e.Payload), "last_event_at")
		}
	})
}

func TestStalledRunLive(t *testing.T) {
	for _, c := range []struct {
		name string
		test func(f *fixture, wd *watchdog.Watchdog, swept sweep.StalledRun)
	}{
		{
			"a watchdog whose limit trips after the cancel keeps the stored one",
			func(f *fixture, wd *watchdog.Watchdog, _ sweep.StalledRun) {
				f.advance(5 * time.Hour)
				reason, fired := wd.Fired()
				require.True(f, fired)
				require.Equal(f, watchdog.SessionIdleTimeout, reason)
				kinds := f.events(wd.ID())
				require.Len(f, slices.DeleteFunc(kinds, func(kind string) bool { return kind != watchdog.EventCancel }), 1)
			},
		},
		{
			"a live run takes up the cancel, with the silence and the threshold",
			func(f *fixture, wd *watchdog.Watchdog, swept sweep.StalledRun) {
				stop, err := wd.Sync(context.Background())
				require.NoError(f, err)
				require.Equal(f, watchdog.SessionIdleTimeout, stop.Code)
				require.Equal(f, swept.Silence, stop.Elapsed)
				require.Equal(f, swept.Threshold, stop.Budget)
				require.Equal(f, swept.DecidedAt.UTC(), stop.FiredAt)
			},
		},
	} {
		subtest(t, c.name, func(f *fixture) {
			start := time.Now().Add(789 * time.Nanosecond) // no store keeps nanoseconds
			wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: start},
				watchdog.Config{Store: f.Memory, Logger: f.cfg.Logger})
			require.NoError(f, err)
			defer wd.Close()
			swept := stalled(wd)
			require.NoError(f, f.Append(context.Background(), swept.CancelEvents()...))
			c.test(f, wd, swept)
		})
	}
}
