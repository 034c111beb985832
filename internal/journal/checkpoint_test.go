package journal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/journal"
	"github.com/seed62658d38/watchdog/internal/looper"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
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
	inStore(t, "it is written once so many events were appended, and another process goes on from it", &store{}, func(t *testing.T, b *bench) {
		b.fill(journal.CheckpointAfter - 1)
		require.Empty(t, b.checkpoints())
		b.fill(1)
		require.Len(t, b.checkpoints(), 1)
		b.fill(20 * journal.CheckpointAfter)
		require.InDelta(t, 21, len(b.checkpoints()), 4, "the last two seconds are left to the next one")
		time.Sleep(2 * time.Minute)
		require.Less(t, b.reads(), 2*journal.CheckpointAfter)
	})
	inStore(t, "events of the last two seconds may be under way, and are left to a later one", &store{}, func(t *testing.T, b *bench) {
		for range 2 * journal.CheckpointAfter {
			require.NoError(t, b.Append(t.Context(), b.extend(time.Second)))
		}
		require.Empty(t, b.checkpoints())
		time.Sleep(3 * time.Second)
		b.fill(1)
		require.Len(t, b.checkpoints(), 1)
	})
	inStore(t, "one that does not reach back to the window that is asked for is passed over", &store{}, func(t *testing.T, b *bench) {
		first := b.name.StartedAt
		require.NoError(t, b.store.Append(t.Context(), b.extend(time.Hour)))
		time.Sleep(3 * time.Hour)
		b.name.StartedAt = record.Truncate(time.Now())
		b.Journal = b.another()
		b.fill(journal.CheckpointAfter)
		require.Len(t, b.checkpoints(), 1)
		time.Sleep(2 * time.Hour)
		found := b.found(first)
		require.Equal(t, first.Add(time.Microsecond), found.NextStart(first), "the first window is known")
	})
	inStore(t, "without one the events of a run are given once", &store{}, func(t *testing.T, b *bench) {
		b.fill(journal.CheckpointAfter - 1)
		time.Sleep(2 * time.Hour)
		require.Equal(t, journal.CheckpointAfter-1, b.reads())
	})
	inStore(t, "it is as old as the newest event, so that it is no sign of life", &store{}, func(t *testing.T, b *bench) {
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
	inStore(t, "one of a format that is not known, damaged, or another run's is passed over", &store{}, func(t *testing.T, b *bench) {
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
	inStore(t, "the one before it is read if the last is of no use", &store{}, func(t *testing.T, b *bench) {
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
	inStore(t, "eight that are of no use are enough to read the run whole", &store{}, func(t *testing.T, b *bench) {
		b.fill(14 * journal.CheckpointAfter)
		require.Greater(t, len(b.checkpoints()), 9)
		time.Sleep(2 * time.Minute)
		b.damage(func(p map[string]any) { p["format"] = record.CheckpointFormat + 1 })
		require.GreaterOrEqual(t, b.reads(), len(b.keeps()))
		selects := len(b.store.Kinds())
		require.Equal(t, 1+8+2, selects, "the last, those before it, and the rest of the run")
	})
	inStore(t, "one that the store did not take is written with later events", &store{}, func(t *testing.T, b *bench) {
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
	inStore(t, "a store that ends the goroutine of one leaves the turn to the next", &store{}, func(t *testing.T, b *bench) {
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
	inStore(t, "none is written of a window that has its end, and none is read behind a resume", &store{}, func(t *testing.T, b *bench) {
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
	inStore(t, "a process that asks much goes on from what it read, and looks for another's after two hours", &store{}, func(t *testing.T, b *bench) {
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
	inStore(t, "nor does it go on from one in which pauses are merged, which it knows by their IDs", &store{}, func(t *testing.T, b *bench) {
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
		attached := b.found(b.name.StartedAt)
		require.Equal(t, "merged", attached.Pauses()[0].ID)
		known, err := b.Consult(t.Context())
		require.NoError(t, err)
		require.Len(t, known.Pauses(), 1)
		require.Equal(t, hold.ID, known.Pauses()[0].ID)
	})
	inStore(t, "much is known that no checkpoint has", &store{}, func(t *testing.T, b *bench) {
		require.False(t, b.Much())
		b.Appended(2*journal.CheckpointAfter - 1)
		require.False(t, b.Much())
		b.Appended(1)
		require.True(t, b.Much())
		b.WriteCheckpoint(t.Context(), timeout)
		require.False(t, b.Much())
		require.Len(t, b.checkpoints(), 1)
	})
	inStore(t, "several runs share a transaction, as far as one is due", &store{}, func(t *testing.T, b *bench) {
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
	inStore(t, "a run of which nothing is kept, or a layer, has none", &store{}, func(t *testing.T, b *bench) {
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
	inStore(t, "a store that cannot transact has none", &store{Steps: true}, func(t *testing.T, b *bench) {
		b.fill(3 * journal.CheckpointAfter)
		require.Empty(t, b.checkpoints())
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
	inStore(t, "they are beside what the events come to", &store{}, func(t *testing.T, b *bench) {
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
	inStore(t, "a layer keeps none", &store{}, func(t *testing.T, b *bench) {
		b.name.Begins = true
		l := looper.New(nil, time.Now())
		b.KeepSteps(l)
		step(l)
		require.False(t, b.StepsDue(true))
		require.Nil(t, b.TakeSteps())
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A shiftedClock is that of a host whose clock is wrong.
type shiftedClock struct {
	clock.Clock
	by time.Duration
}

func (c shiftedClock) Now() time.Time { return c.Clock.Now().Add(c.by) }

func (c shiftedClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// A writer is a process that watches the run.
type writer struct {
	*bench
	clock shiftedClock
}

// A world is two processes that write about one run, whose clocks are less than an hour apart.
type world struct {
	*rand.Rand
	t        *testing.T
	store    *store
	writers  [2]*writer
	openings []string
	given    []string // directives
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 5)), t: t, store: &store{Keeps: true}}
	for i := range w.writers {
		c := shiftedClock{clock.New(), time.Duration(w.IntN(3400)-1700) * time.Second}
		b := newBench(t, w.store, func(p *journal.Place) { p.Clock = c })
		w.writers[i] = &writer{b, c}
	}
	w.store.FailWith(func(_ context.Context, c call) error {
		if c.Kind != "select" && w.IntN(12) == 0 {
			return errFull
		}
		return nil
	})
	return w
}

// next is an event that a writer has about the window that it is in.
func (w *world) next(by *writer) fold.Event {
	start := by.stamp()
	var kind string
	var payload any
	used, rung := record.Used{ConfiguredBudgetSeconds: record.Seconds(w.IntN(2))}, record.Count(1+w.IntN(3))
	elapsed := record.ExactSeconds(by.clock.Since(by.name.StartedAt))
	opening := pick(w, w.openings)
	switch w.IntN(8) {
	case 0:
		kind, payload = record.EventExtend, record.Extend{SessionStartedAt: start, ExtensionSeconds: 1}
	case 1:
		kind, payload = record.EventWarning, record.Warning{SessionStartedAt: start, Used: used, Fraction: 0.5}
	case 2:
		kind, payload = record.EventWrapUp, record.WrapUp{SessionStartedAt: start, Used: used}
	case 3, 4:
		kind, payload = record.EventWait, record.Trip{
			Reason: "idle_exceeded", SessionStartedAt: start, Directive: "wait", Rung: rung, Resets: w.some(),
		}
	case 5:
		kind, payload = record.EventProgress, record.Progress{SessionStartedAt: start, Resets: w.some()}
	case 6:
		kind, payload = record.EventHold, record.Hold{
			SessionStartedAt: start, Hold: fmt.Sprint("ask-", w.IntN(2)), OpenedSeconds: elapsed, CapSeconds: 900,
		}
	default:
		w.openings = slices.DeleteFunc(w.openings, func(id string) bool { return id == opening })
		kind, payload = record.EventRelease, record.Release{SessionStartedAt: start, Opening: opening, ReleasedSeconds: elapsed}
	}
	e := by.name.Event(kind, by.clock.Now(), "", payload)
	if kind == record.EventWait {
		w.given = append(w.given, e.ID)
	} else if kind == record.EventHold {
		w.openings = append(w.openings, e.ID)
	}
	return e
}

// pick is one of them, empty if there is none.
func pick(w *world, all []string) string {
	if len(all) == 0 {
		return ""
	}
	return all[w.IntN(len(all))]
}

// some is a directive that was given lately, or none.
func (w *world) some() []string {
	if w.IntN(2) == 0 || len(w.given) == 0 {
		return nil
	}
	return []string{pick(w, w.given[max(0, len(w.given)-3):])}
}

// step has one of the writers do something.
func (w *world) step() {
	by, ctx := w.writers[w.IntN(2)], w.t.Context()
	switch n := w.IntN(20); {
	case n < 12:
		_ = by.Append(ctx, w.next(by))
	case n < 14:
		time.Sleep(time.Duration(w.IntN(100)) * time.Minute)
	case n < 16:
		want := w.whole().At(by.name.StartedAt)
		_, _ = by.Transact(ctx, timeout, []fold.Event{w.next(by)}, func(known *fold.Window) []fold.Event {
			if !known.StartedAt.IsZero() { // else it could not be read
				w.requireSame(want, *known)
			}
			if known.Over() {
				return nil
			}
			return []fold.Event{w.next(by)}
		})
	case n < 18:
		known, err := by.Consult(ctx)
		require.NoError(w.t, err)
		w.requireSame(w.whole().At(by.name.StartedAt), known)
	case n < 19:
		by.WriteCheckpoint(ctx, timeout)
	case w.IntN(4) == 0:
		w.reopen(by)
	}
	time.Sleep(time.Duration(w.IntN(20e6)) * time.Microsecond)
	synctest.Wait()
}

// reopen ends the window and opens the next, which both go on with.
func (w *world) reopen(by *writer) {
	cancel := record.Cancel{Reason: "idle_exceeded", SessionStartedAt: by.stamp(), FiredAt: record.Stamp(by.clock.Now())}
	if by.Append(w.t.Context(), by.name.Event(record.EventCancel, by.clock.Now(), record.Once, cancel)) != nil {
		return
	}
	fresh := record.Truncate(by.clock.Now()).Add(time.Minute)
	resume := record.Resume{SessionStartedAt: record.Stamp(fresh), PreviousStartedAt: by.stamp()}
	for by.Append(w.t.Context(), by.name.Event(record.EventResume, by.clock.Now(), record.Once, resume)) != nil {
		continue
	}
	for _, one := range w.writers {
		one.name.StartedAt = fresh
		one.Journal = one.another()
	}
	w.openings, w.given = nil, nil
	time.Sleep(time.Hour) // the other's clock has come to it
}

func (w *world) whole() *fold.History {
	h := fold.Of(fold.WindowID{}, w.store.All("s-1"))
	return &h
}

// attach has a process attach that knows nothing, with the start of any window.
func (w *world) attach(starts map[time.Time]bool) {
	by := w.writers[w.IntN(2)]
	starts[by.name.StartedAt] = true
	for host := range starts {
		found, err := by.another().ReadWindow(w.t.Context(), host)
		require.NoError(w.t, err)
		w.requireSame(w.whole().Current(host), found)
	}
}

// requireSame compares all that can be asked of a window.
func (w *world) requireSame(want, got fold.Window) {
	w.t.Helper()
	elapsed := w.writers[0].clock.Since(want.StartedAt)
	require.Equal(w.t, said(&want, elapsed), said(&got, elapsed))
}

func said(w *fold.Window, elapsed time.Duration) map[string]any {
	stop, budget := "", w.Extended.Seconds()
	if w.Stop != nil {
		stop = string(record.JSON(w.Stop))
	}
	open := slices.DeleteFunc(append([]fold.Pause{}, w.Pauses()...), func(p fold.Pause) bool { return p.Closed })
	return map[string]any{
		"start": w.StartedAt, "opened by": w.OpenedBy, "extended": w.Extended, "stop": stop, "complete": w.Complete(),
		"standing": maps.Collect(w.Standing()), "open": open, "paused": verdict.PausedBefore(w.Paused(), elapsed),
		"warned": w.WarnedOf(fold.Key{}, []float64{0.5}, budget), "wrapped": w.WrappedUp(fold.Key{}, budget),
	}
}

// TestModel protects that a process which reads a window in parts, from checkpoints of whoever wrote them, knows what
// all events say.
func TestModel(t *testing.T) {
	defer func(before int) { journal.CheckpointAfter = before }(journal.CheckpointAfter)
	journal.CheckpointAfter = 5
	written, seeds := 0, racing.Rounds[uint64](6, 60)
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, starts := newWorld(t, seed), map[time.Time]bool{}
				for range 120 {
					w.step()
					if w.IntN(8) == 0 {
						w.attach(starts)
					}
				}
				w.attach(starts)
				written += len(w.writers[0].checkpoints())
			})
		})
	}
	require.Greater(t, written, 4*int(seeds), "checkpoints were read")
}
