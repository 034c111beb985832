package watchdog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// silent is a session that had its last event at noon, and nothing new for 12 minutes and a bit.
func silent() watchdog.Swept {
	return watchdog.Swept{
		RunID: "s-1", StartedAt: noon, LastEventAt: noon.Add(time.Minute), At: noon.Add(13*time.Minute + 500*time.Millisecond),
		Silence: 12*time.Minute + 500*time.Millisecond, Threshold: 10 * time.Minute,
	}
}

func TestSweptGoldens(t *testing.T) {
	layer := silent()
	layer.RunID, layer.Parent, layer.LastEventAt, layer.Warned = "s-1/build", "s-1", time.Time{}, true
	for name, events := range map[string][]watchdog.Event{
		"swept": silent().Cancel(), "swept_warned_layer": layer.Cancel(), "swept_warning": {silent().Warning()},
	} {
		t.Run(name, func(t *testing.T) {
			var all bytes.Buffer
			for _, e := range events {
				require.NoError(t, e.Validate())
				text, err := json.Marshal(e)
				require.NoError(t, err)
				all.Write(append(text, '\n'))
			}
			golden(t, "events/"+name+".json", all.Bytes())
		})
	}
}

func TestSwept(t *testing.T) {
	t.Run("is the window's one cancel: a live watchdog that is first keeps it, and takes it up where it is second", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.run.StartedAt = b.run.StartedAt.Add(789 * time.Nanosecond) // which no store keeps
			wd := b.attach()
			swept := silent()
			swept.RunID, swept.StartedAt = wd.ID(), wd.StartedAt()
			require.NoError(b.t, b.store.Append(context.Background(), swept.Cancel()...))
			b.pass(5 * time.Hour)
			reason, fired := wd.Fired()
			require.True(b.t, fired)
			require.Equal(b.t, watchdog.SessionIdleTimeout, reason)
			require.Len(b.t, b.events(watchdog.EventCancel), 1)
		})
	})
	t.Run("has the ID of the stop that it is, whatever zone and digits its start has", func(t *testing.T) {
		stop := &watchdog.Stop{RunID: "s-1", StartedAt: noon}
		swept := silent()
		swept.StartedAt = noon.Add(999).In(time.FixedZone("there", 3600))
		require.Equal(t, stop.EventID(), swept.Cancel()[1].ID)
		require.Equal(t, silent().Cancel()[1].ID, swept.Cancel()[1].ID)
	})
	t.Run("is taken up by a live run on another host, with the silence and the threshold", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			wd := b.attach()
			swept := silent()
			swept.RunID, swept.StartedAt = wd.ID(), wd.StartedAt()
			require.NoError(b.t, b.store.Append(context.Background(), swept.Cancel()...))
			stop, err := wd.Sync(context.Background())
			require.NoError(b.t, err)
			require.Equal(b.t, watchdog.SessionIdleTimeout, stop.Code)
			require.Equal(b.t, swept.Silence, stop.Elapsed)
			require.Equal(b.t, swept.Threshold, stop.Budget)
			require.Equal(b.t, swept.At.UTC(), stop.FiredAt)
		})
	})
	t.Run("is read after its advisory, whatever their IDs are", func(t *testing.T) {
		for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
			swept := silent()
			swept.RunID = id
			events := swept.Cancel()
			slices.SortFunc(events, watchdog.Event.Compare)
			require.Equal(t, watchdog.EventWarning, events[0].Type)
			require.Equal(t, watchdog.EventCancel, events[1].Type)
		}
	})
	t.Run("is warned of once for each silence", func(t *testing.T) {
		first, again, woken := silent(), silent(), silent()
		again.At, again.Silence = again.At.Add(time.Second), again.Silence+time.Second
		woken.LastEventAt = woken.LastEventAt.Add(time.Microsecond)
		require.Equal(t, first.Warning().ID, again.Warning().ID)
		require.NotEqual(t, first.Warning().ID, woken.Warning().ID)
		require.NotEqual(t, first.Warning().ID, first.Cancel()[0].ID)
	})
	t.Run("says nothing of a last event that there was not", func(t *testing.T) {
		never := silent()
		never.LastEventAt = time.Time{}
		for _, e := range append(never.Cancel(), never.Warning()) {
			require.NotContains(t, string(e.Payload), "last_event_at")
		}
	})
}
