package journal_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/journal"
	"github.com/seed62658d38/watchdog/internal/looper"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/loop"
)

// checkpoints are those that the store has.
func (b *bench) checkpoints() (all []fold.Event) {
	return slices.DeleteFunc(b.store.All(b.name.Run), func(e fold.Event) bool { return e.Type != record.EventCheckpoint })
}

// reads has a process attach that knows nothing, and returns how many events it was given.
func (b *bench) reads() int {
	counting := &countingStore{store: b.store}
	place := *b.place
	place.Store = counting
	j := &journal.Journal{}
	j.Open(&place, &b.name)
	found, err := j.ReadWindow(b.t.Context(), b.name.StartedAt)
	require.NoError(b.t, err)
	whole := b.whole(b.name.StartedAt)
	require.Equal(b.t, whole.Extended, found.Extended)
	require.Equal(b.t, whole.StartedAt, found.StartedAt)
	return counting.events
}

// A countingStore counts the events that it gives.
type countingStore struct {
	*store
	events int
}

func (s *countingStore) Select(ctx context.Context, by fold.Selection) ([]fold.Event, error) {
	events, err := s.store.Select(ctx, by)
	s.events += len(events)
	return events, err
}

// damage has the checkpoints say something else.
func (b *bench) damage(change func(p map[string]any)) {
	all := b.store.All(b.name.Run)
	b.store = &store{Sparse: b.store.Sparse, Keeps: true}
	b.place.Store = b.store
	for _, e := range all {
		if e.Type == record.EventCheckpoint {
			var p map[string]any
			require.NoError(b.t, json.Unmarshal(e.Payload, &p))
			change(p)
			e.Payload = record.JSON(p)
		}
		require.NoError(b.t, b.store.Append(b.t.Context(), e))
	}
	b.store.Kinds()
}

// TestCheckpoint protects that a window is not read from its beginning on by everybody who attaches.
func TestCheckpoint(t *testing.T) {
	inStore := func(name string, test func(t *testing.T, b *bench)) {
		t.Run(name, func(t *testing.T) { withStore(t, &store{}, test) })
	}
	inStore("it is written once so many events were appended, and another process goes on from it", func(t *testing.T, b *bench) {
		b.fill(journal.CheckpointAfter - 1)
		require.Empty(t, b.checkpoints())
		b.fill(1)
		require.Len(t, b.checkpoints(), 1)
		b.fill(20 * journal.CheckpointAfter)
		require.InDelta(t, 21, len(b.checkpoints()), 4, "the last two seconds are left to the next one")
		time.Sleep(2 * time.Minute)
		require.Less(t, b.reads(), 2*journal.CheckpointAfter)
	})
	inStore("events of the last two seconds may be under way, and are left to a later one", func(t *testing.T, b *bench) {
		for range 2 * journal.CheckpointAfter {
			require.NoError(t, b.Append(t.Context(), b.extend(time.Second)))
		}
		require.Empty(t, b.checkpoints())
		time.Sleep(3 * time.Second)
		b.fill(1)
		require.Len(t, b.checkpoints(), 1)
	})
	inStore("one that does not reach back to the window that is asked for is passed over", func(t *testing.T, b *bench) {
		first := b.name.StartedAt
		require.NoError(t, b.store.Append(t.Context(), b.extend(time.Hour)))
		time.Sleep(3 * time.Hour)
		b.name.StartedAt = record.Truncate(time.Now())
		b.Journal = b.another()
		b.fill(journal.CheckpointAfter)
		require.Len(t, b.checkpoints(), 1)
		time.Sleep(2 * time.Hour)
		found, err := b.another().ReadWindow(t.Context(), first)
		require.NoError(t, err)
		require.Equal(t, first.Add(time.Microsecond), found.NextStart(first), "the first window is known")
	})
	inStore("without one the events of a run are given once", func(t *testing.T, b *bench) {
		b.fill(journal.CheckpointAfter - 1)
		time.Sleep(2 * time.Hour)
		require.Equal(t, journal.CheckpointAfter-1, b.reads())
	})
	inStore("it is as old as the newest event, so that it is no sign of life", func(t *testing.T, b *bench) {
		b.fill(journal.CheckpointAfter)
		time.Sleep(time.Hour)
		b.fill(journal.CheckpointAfter)
		for _, one := range b.checkpoints() {
			all := b.store.All(b.name.Run)
			at := slices.IndexFunc(all, func(e fold.Event) bool { return e.ID == one.ID })
			require.Positive(t, at)
			require.LessOrEqual(t, one.Timestamp.Sub(all[at-1].Timestamp), time.Microsecond)
		}
	})
	inStore("one of a format that is not known, damaged, or another run's is passed over", func(t *testing.T, b *bench) {
		b.fill(3 * journal.CheckpointAfter)
		time.Sleep(2 * time.Minute)
		spared, all := b.reads(), len(b.keeps())
		require.Less(t, spared, all)
		for name, change := range map[string]func(p map[string]any){
			"newer":         func(p map[string]any) { p["format"] = record.CheckpointFormat + 1 },
			"damaged":       func(p map[string]any) { p["folded"] = "seven" },
			"empty":         func(p map[string]any) { delete(p, "folded") },
			"out of order":  func(p map[string]any) { p["until"] = p["from"]; p["since"] = "2100-01-01T00:00:00Z" },
			"another run's": func(p map[string]any) { p["parent"] = "s-0" },
		} {
			intact := b.store
			b.damage(change)
			require.GreaterOrEqual(t, b.reads(), all, name)
			b.store, b.place.Store = intact, intact
			require.Equal(t, spared, b.reads(), name)
		}
	})
	inStore("the one before it is read if the last is of no use", func(t *testing.T, b *bench) {
		b.fill(3 * journal.CheckpointAfter)
		time.Sleep(2 * time.Minute)
		left, all := len(b.checkpoints())-1, len(b.keeps())
		require.Positive(t, left)
		b.damage(func(p map[string]any) {
			if left--; left < 0 {
				p["format"] = record.CheckpointFormat + 1
			}
		})
		require.Less(t, b.reads(), all)
	})
	inStore("eight that are of no use are enough to read the run whole", func(t *testing.T, b *bench) {
		b.fill(14 * journal.CheckpointAfter)
		require.Greater(t, len(b.checkpoints()), 9)
		time.Sleep(2 * time.Minute)
		b.damage(func(p map[string]any) { p["format"] = record.CheckpointFormat + 1 })
		require.GreaterOrEqual(t, b.reads(), len(b.keeps()))
		selects := len(b.store.Kinds())
		require.Equal(t, 1+8+2, selects, "the last, those before it, and the rest of the run")
	})
	inStore("one that the store did not take is written with later events", func(t *testing.T, b *bench) {
		b.store.FailWith(func(_ context.Context, c call) error {
			if c.Kind == "transact" {
				return errFull
			}
			return nil
		})
		b.fill(2 * journal.CheckpointAfter)
		require.Empty(t, b.checkpoints())
		b.store.FailWith(nil)
		b.fill(journal.CheckpointAfter)
		require.Len(t, b.checkpoints(), 1)
		time.Sleep(2 * time.Minute)
		require.Less(t, b.reads(), journal.CheckpointAfter)
	})
	inStore("a store that ends the goroutine of one leaves the turn to the next", func(t *testing.T, b *bench) {
		b.store.FailWith(func(_ context.Context, c call) error {
			if c.Kind == "transact" {
				panic("secret")
			}
			return nil
		})
		b.fill(journal.CheckpointAfter)
		b.store.FailWith(nil)
		b.fill(journal.CheckpointAfter)
		require.Len(t, b.checkpoints(), 1)
	})
	inStore("none is written of a window that has its end, and none is read behind a resume", func(t *testing.T, b *bench) {
		b.fill(journal.CheckpointAfter)
		require.Len(t, b.checkpoints(), 1)
		b.chain(2)
		time.Sleep(2 * time.Minute)
		require.Less(t, b.reads(), journal.CheckpointAfter)
		cancel, _ := b.cancel("wall_clock_exceeded")
		require.NoError(t, b.Append(t.Context(), cancel))
		time.Sleep(time.Minute)
		b.fill(2 * journal.CheckpointAfter)
		require.Len(t, b.checkpoints(), 1)
	})
	inStore("a process that asks much goes on from what it read, and looks for another's after two hours", func(t *testing.T, b *bench) {
		other := &bench{t: t, store: b.store, place: b.place, name: b.name}
		other.Journal = other.another()
		other.fill(3 * journal.CheckpointAfter)
		time.Sleep(time.Minute)
		counting := &countingStore{store: b.store}
		place := *b.place
		place.Store = counting
		b.Open(&place, &b.name)
		consult := func() (events int) {
			before := counting.events
			known, err := b.Consult(t.Context())
			require.NoError(t, err)
			require.Equal(t, b.whole(b.name.StartedAt).Extended, known.Extended)
			return counting.events - before
		}
		require.Greater(t, consult(), 3*journal.CheckpointAfter)
		require.LessOrEqual(t, consult(), 1)
		time.Sleep(3 * time.Hour)
		other.fill(30 * journal.CheckpointAfter)
		require.Less(t, consult(), 5*journal.CheckpointAfter, "another process has read the rest")
	})
	inStore("nor does it go on from one in which pauses are merged, which it knows by their IDs", func(t *testing.T, b *bench) {
		hold := b.event(record.EventHold, record.Hold{Hold: "ask", SessionStartedAt: b.stamp(), CapSeconds: 600})
		time.Sleep(time.Minute)
		release := b.event(record.EventRelease, record.Release{
			SessionStartedAt: b.stamp(), Opening: hold.ID, ReleasedSeconds: 60,
		})
		require.NoError(t, b.store.Append(t.Context(), hold, release))
		time.Sleep(3 * time.Hour)
		other := &bench{t: t, store: b.store, place: b.place, name: b.name}
		other.Journal = other.another()
		other.fill(2 * journal.CheckpointAfter)
		attached, err := b.another().ReadWindow(t.Context(), b.name.StartedAt)
		require.NoError(t, err)
		require.Equal(t, "merged", attached.Pauses()[0].ID)
		known, err := b.Consult(t.Context())
		require.NoError(t, err)
		require.Len(t, known.Pauses(), 1)
		require.Equal(t, hold.ID, known.Pauses()[0].ID)
	})
	inStore("much is known that no checkpoint has", func(t *testing.T, b *bench) {
		require.False(t, b.Much())
		b.Appended(2*journal.CheckpointAfter - 1)
		require.False(t, b.Much())
		b.Appended(1)
		require.True(t, b.Much())
		b.WriteCheckpoint(t.Context(), timeout)
		require.False(t, b.Much())
		require.Len(t, b.checkpoints(), 1)
	})
	inStore("several runs share a transaction, as far as one is due", func(t *testing.T, b *bench) {
		var all []*journal.Journal
		for i, appended := range []int{journal.CheckpointAfter, 1, journal.CheckpointAfter} {
			one := &bench{t: t, store: b.store, place: b.place, name: b.name}
			one.name.Run = []string{"s-1", "s-2", "s-3"}[i]
			one.Journal = one.another()
			one.Appended(appended)
			all = append(all, one.Journal)
		}
		journal.CheckpointAll(t.Context(), b.place, all...)
		require.Equal(t, []string{"transact", "keep", "keep"}, b.store.Kinds())
	})
	inStore("a run of which nothing is kept, or a layer, has none", func(t *testing.T, b *bench) {
		b.place.Off = true
		b.Appended(2 * journal.CheckpointAfter)
		b.Checkpoint(t.Context())
		b.place.Off, b.name.Begins = false, true
		b.name.Draw()
		layer := b.another()
		layer.Appended(2 * journal.CheckpointAfter)
		layer.Checkpoint(t.Context())
		require.Empty(t, b.store.Kinds())
	})
	t.Run("a store that cannot transact has none", func(t *testing.T) {
		withStore(t, &store{Steps: true}, func(t *testing.T, b *bench) {
			b.fill(3 * journal.CheckpointAfter)
			require.Empty(t, b.checkpoints())
		})
	})
}

// TestSteps protects what a run remembers of its steps over a restart.
func TestSteps(t *testing.T) {
	step := func(l *looper.Looper) { l.Step([]loop.Step{{Tool: "ls", Outcome: []byte("a")}}) }
	inBubble(t, "they are in a checkpoint of their own, and whoever attaches takes them once", func(t *testing.T, b *bench) {
		l := looper.New(nil, time.Now())
		b.KeepSteps(l)
		require.False(t, b.StepsDue(true), "there is none")
		step(l)
		require.False(t, b.StepsDue(false), "not within a minute")
		b.Checkpoint(t.Context())
		require.Empty(t, b.checkpoints())
		time.Sleep(2 * time.Minute)
		require.True(t, b.StepsDue(false))
		want := l.State()
		b.Checkpoint(t.Context())
		require.Len(t, b.checkpoints(), 1)
		require.False(t, b.StepsDue(true))
		other := b.another()
		_, err := other.ReadWindow(t.Context(), b.name.StartedAt)
		require.NoError(t, err)
		require.Equal(t, want, other.TakeSteps().Steps)
		require.Nil(t, other.TakeSteps())
	})
	inBubble(t, "the last of them counts, whatever checkpoint came after it", func(t *testing.T, b *bench) {
		l := looper.New(nil, time.Now())
		b.KeepSteps(l)
		var want []byte
		for range 3 {
			step(l)
			time.Sleep(2 * time.Minute)
			want = l.State()
			b.Checkpoint(t.Context())
		}
		require.Len(t, b.checkpoints(), 3)
		b.KeepSteps(nil)
		other := b.another()
		_, err := other.ReadWindow(t.Context(), b.name.StartedAt)
		require.NoError(t, err)
		require.Equal(t, want, other.TakeSteps().Steps)
	})
	inBubble(t, "those that the store did not take are due again", func(t *testing.T, b *bench) {
		l := looper.New(nil, time.Now())
		b.KeepSteps(l)
		step(l)
		require.True(t, b.StepsDue(true))
		b.store.FailWith(func(context.Context, call) error { return errFull })
		b.Checkpoint(t.Context())
		b.store.FailWith(nil)
		require.False(t, b.StepsDue(false), "nor do they press")
		time.Sleep(2 * time.Minute)
		require.True(t, b.StepsDue(false))
		b.Checkpoint(t.Context())
		require.Len(t, b.checkpoints(), 1)
	})
	t.Run("they are beside what the events come to", func(t *testing.T) {
		withStore(t, &store{}, func(t *testing.T, b *bench) {
			l := looper.New(nil, time.Now())
			b.KeepSteps(l)
			step(l)
			b.fill(journal.CheckpointAfter)
			all := b.checkpoints()
			require.Len(t, all, 1)
			p, err := fold.ReadCheckpoint(fold.WindowID{}, all[0].Payload)
			require.NoError(t, err)
			require.NotNil(t, p.Folded)
			require.Equal(t, l.State(), p.Steps)
		})
	})
	t.Run("a layer keeps none", func(t *testing.T) {
		withStore(t, &store{}, func(t *testing.T, b *bench) {
			b.name.Begins = true
			l := looper.New(nil, time.Now())
			b.KeepSteps(l)
			step(l)
			require.False(t, b.StepsDue(true))
			require.Nil(t, b.TakeSteps())
		})
	})
}
