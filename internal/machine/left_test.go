package machine_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// alive is an opener that lives.
var alive = &record.Opener{Host: lives}

// storedEvents are those of the entries that wait.
func storedEvents(g *rig) (all []event.Event) {
	for _, e := range g.runs[0].Pending.All() {
		all = append(all, e.Events()...)
	}
	return all
}

// ids are those of events of a kind.
func ids(events []event.Event, kind string) (all []string) {
	for _, e := range events {
		if e.Type == kind {
			all = append(all, e.ID)
		}
	}
	return all
}

// TestLeft protects whose hold is whose where two processes have one key.
func TestLeft(t *testing.T) {
	approval := verdict.HoldLimits{Cap: time.Hour}
	for name, by := range map[string]*record.Opener{"of an opener that lives": alive, "of an event of before": nil} {
		t.Run("a hold "+name+" is open beside one's own, and outlasts it", func(t *testing.T) {
			g := attached(t, hour(), 2*time.Minute, windowOf(heldBy(by, "e", "approval", "", time.Minute, 10*time.Minute)))
			n := g.runs[0]
			h := g.hold(n, "approval", approval, true)
			require.Equal(t, 2, n.Seen().Signs.Holds.Len())
			g.pass(time.Minute)
			require.True(t, g.release(h))
			require.Equal(t, 1, n.Seen().Signs.Holds.Len())
			g.pass(time.Minute)
			require.Equal(t, time.Minute, g.worked(n))
			require.Equal(t, []string{g.runs[0].Pending.All()[1].Events()[0].ID}, ids(storedEvents(g), event.Release))
			require.Empty(t, g.tickAt(11*time.Minute+1), "its opener minds its cap")
			require.Zero(t, n.Seen().Signs.Holds.Len())
			require.Equal(t, time.Minute+1, g.worked(n))
		})
	}
	t.Run("one's own outlasts it", func(t *testing.T) {
		g := attached(t, hour(), 2*time.Minute, windowOf(heldBy(alive, "e", "approval", "", time.Minute, 10*time.Minute)))
		n := g.runs[0]
		g.hold(n, "approval", approval, true)
		require.Empty(t, g.tickAt(12*time.Minute))
		require.Equal(t, 1, n.Seen().Signs.Holds.Len())
		require.Equal(t, time.Minute, g.worked(n))
		g.tickAt(62*time.Minute + 1)
		require.Equal(t, verdict.Hold, n.Trip().Verdict.Limit)
	})
	t.Run("a release of its opener closes it beside one's own", func(t *testing.T) {
		opened := heldBy(alive, "e", "approval", "", time.Minute, 10*time.Minute)
		g := attached(t, hour(), 2*time.Minute, windowOf(opened))
		g.hold(g.runs[0], "approval", approval, true)
		known := windowOf(opened, released("e", 3*time.Minute))
		g.feed(g.runs[0], &machine.Input{Kind: machine.Adopt, Window: &known})
		require.Equal(t, 1, g.runs[0].Seen().Signs.Holds.Len())
	})
	t.Run("what is taken over has an opening of its own, and both have a release", func(t *testing.T) {
		opened := held("e", "approval", "", time.Minute, 10*time.Minute)
		g := attached(t, hour(), 2*time.Minute, windowOf(opened))
		n := g.runs[0]
		h := g.hold(n, "approval", approval, true)
		require.Equal(t, 1, n.Seen().Signs.Holds.Len())
		all := storedEvents(g)
		var again record.Hold
		require.NoError(t, json.Unmarshal(all[0].Payload, &again))
		require.Equal(t, []any{record.Seconds(120), record.Seconds(540)}, []any{again.OpenedSeconds, again.CapSeconds})
		require.Equal(t, noon.Add(2*time.Minute), time.Time(again.OpenedAt))
		require.NotContains(t, ids(all, event.Release), record.EventID("s", event.Stamp(noon).String(), event.Release, "e"),
			"that is for its opener")
		g.pass(time.Minute)
		require.True(t, g.release(h))
		all = storedEvents(g)
		releases := ids(all, event.Release)
		require.Len(t, releases, 2)
		var taken record.Release
		require.NoError(t, json.Unmarshal(all[slices.IndexFunc(all, func(e event.Event) bool { return e.ID == releases[0] })].Payload, &taken))
		require.Equal(t, []string{"e", all[0].ID}, []string{taken.Opening, taken.TakenBy})
		w := windowOf(append(all, opened)...)
		for _, p := range w.Pauses() {
			require.True(t, p.Closed)
		}
		require.Equal(t, time.Minute, g.worked(n))
	})
	t.Run("of several that of the latest end is gone on with, and all are released", func(t *testing.T) {
		g := attached(t, hour(), 2*time.Minute, windowOf(
			held("a", "approval", "", time.Minute, 10*time.Minute), held("b", "approval", "", time.Minute, 20*time.Minute),
			heldBy(alive, "c", "approval", "", time.Minute, 5*time.Minute),
		))
		n := g.runs[0]
		require.Equal(t, 3, n.Seen().Signs.Holds.Len())
		g.hold(n, "approval", approval, true)
		require.Equal(t, 2, n.Seen().Signs.Holds.Len())
		require.Len(t, ids(storedEvents(g), event.Release), 2)
		require.Empty(t, g.tickAt(21*time.Minute))
		g.tickAt(21*time.Minute + 1)
		require.Equal(t, verdict.Hold, n.Trip().Verdict.Limit)
		require.Equal(t, 20*time.Minute, n.Trip().Verdict.Allowed)
	})
	t.Run("of two that nobody takes over the later one is the run's end", func(t *testing.T) {
		g := attached(t, hour(), 2*time.Minute, windowOf(
			held("a", "approval", "", 0, 10*time.Minute), held("b", "approval", "", time.Minute, 20*time.Minute),
		))
		require.Empty(t, g.tickAt(20*time.Minute))
		g.tickAt(21*time.Minute + 1)
		require.Equal(t, "b", g.runs[0].Trip().LeftOpen)
	})
	t.Run("one that was learned of after the attach is taken over", func(t *testing.T) {
		g := attached(t, hour(), time.Minute, windowOf())
		n := g.runs[0]
		known := windowOf(held("e", "approval", "", time.Minute, 10*time.Minute))
		g.feed(n, &machine.Input{Kind: machine.Adopt, Window: &known})
		require.Zero(t, n.Seen().Signs.Holds.Len())
		g.pass(time.Minute)
		h := g.hold(n, "approval", approval, true)
		g.pass(time.Minute)
		require.True(t, g.release(h))
		g.pass(time.Minute)
		require.Equal(t, 2*time.Minute, g.worked(n))
	})
	t.Run("unless its pause is over", func(t *testing.T) {
		g := attached(t, hour(), time.Minute, windowOf())
		n := g.runs[0]
		known := windowOf(held("e", "approval", "", time.Minute, 10*time.Minute))
		g.feed(n, &machine.Input{Kind: machine.Adopt, Window: &known})
		g.tickAt(11*time.Minute + 1)
		g.hold(n, "approval", approval, true)
		require.Empty(t, g.tickAt(20*time.Minute))
		require.Empty(t, ids(storedEvents(g), event.Release))
	})
	t.Run("one of a layer that lives stops the wall clock beside that of a layer here", func(t *testing.T) {
		g := attached(t, hour(), 2*time.Minute, windowOf(heldBy(alive, "e", "s/build", "s/l", time.Minute, 10*time.Minute)))
		n := g.runs[0]
		h := g.hold(g.layer(n, hour()), "build", approval, true)
		g.pass(time.Minute)
		require.True(t, g.release(h))
		g.pass(time.Minute)
		require.Equal(t, time.Minute, g.worked(n))
	})
	t.Run("a hold of the session takes none of a layer over", func(t *testing.T) {
		g := attached(t, hour(), 2*time.Minute, windowOf(held("e", "s/build", "s/l", time.Minute, 10*time.Minute)))
		require.Empty(t, g.runs[0].Openers("s/build"))
		g.hold(g.runs[0], "s/build", approval, true)
		require.Empty(t, ids(storedEvents(g), event.Release))
	})
	t.Run("a ladder goes on where it was", func(t *testing.T) {
		l := hour()
		l.Ladders = verdict.Ladders{verdict.Hold: []verdict.Directive{verdict.DirectWait, verdict.DirectRetry}}
		g := attached(t, l, 2*time.Minute, windowOf(held("e", "approval", "", time.Minute, 10*time.Minute)))
		n := g.runs[0]
		g.tickAt(11*time.Minute + 1)
		h := g.hold(n, "approval", approval, true)
		g.tickAt(21*time.Minute + 2)
		var asked []string
		for _, e := range storedEvents(g) {
			asked = append(asked, e.Type)
		}
		require.Contains(t, asked, event.Retry)
		require.True(t, g.release(h))
		var release record.Release
		all := storedEvents(g)
		require.NoError(t, json.Unmarshal(all[len(all)-1].Payload, &release))
		require.Len(t, release.Resets, 2, "it puts the ladder back")
	})
}
