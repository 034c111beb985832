package sweep_test

import (
	"context"
	"encoding/json"
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
