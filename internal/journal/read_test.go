package journal_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/journal"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A countingStore counts the events that it gives.
type countingStore struct {
	*store
	events int
	known  int // which it was to count at last
}

func (s *countingStore) Select(ctx context.Context, by event.Selection) ([]event.Event, error) {
	s.known = by.Known
	events, err := s.store.Select(ctx, by)
	s.events += len(events)
	return events, err
}

func (s *countingStore) Transact(ctx context.Context, exchanges ...*event.Exchange) error {
	for _, x := range exchanges {
		decide := x.Decide
		x.Decide = func(selected []event.Event) []event.Event {
			s.events += len(selected)
			return decide(selected)
		}
	}
	return s.store.Transact(ctx, exchanges...)
}

// A reader is a process whose reads are counted.
type reader struct {
	*bench
	counts *countingStore
}

func (b *bench) reader() *reader {
	counts := &countingStore{store: b.store}
	place := *b.place
	place.Store = journal.StoreOf(counts)
	r := &reader{&bench{t: b.t, store: b.store, place: &place, name: b.name}, counts}
	r.Journal = r.another()
	return r
}

// reads is how many events the call was given.
func (r *reader) reads(call func()) int {
	before := r.counts.events
	call()
	return r.counts.events - before
}

func (r *reader) attach() {
	found, err := r.ReadWindow(r.t.Context(), r.name.StartedAt)
	require.NoError(r.t, err)
	whole := r.whole(r.name.StartedAt)
	require.Equal(r.t, whole.Extended, found.Extended)
	require.Equal(r.t, whole.StartedAt, found.StartedAt)
}

func (r *reader) consult() {
	known, err := r.Consult(r.t.Context())
	require.NoError(r.t, err)
	require.Equal(r.t, r.whole(r.name.StartedAt).Extended, known.Extended)
}

// trip has an exchange that decides on nothing.
func (r *reader) trip() {
	whole := r.whole(r.name.StartedAt)
	_, err := r.Transact(r.t.Context(), timeout, nil, func(known *fold.Window) []event.Event {
		require.Equal(r.t, whole.Extended, known.Extended)
		return nil
	})
	require.NoError(r.t, err)
}

// TestReadOnce protects that a process reads a window once, and then what is new.
func TestReadOnce(t *testing.T) {
	inStore(t, "who attached reads what came since, with a trip and without", &store{}, func(t *testing.T, b *bench) {
		b.fill(500)
		time.Sleep(time.Minute)
		r := b.reader()
		require.Equal(t, 500, r.reads(r.attach))
		require.Zero(t, r.reads(r.consult))
		require.Zero(t, r.reads(r.trip))
		b.fill(3)
		require.Equal(t, 3, r.reads(r.consult))
		require.Equal(t, 3, r.reads(r.trip))
	})
	inStore(t, "so does one that attached before there was anything", &store{}, func(t *testing.T, b *bench) {
		r := b.reader()
		require.Zero(t, r.reads(r.attach))
		for range 20 {
			b.fill(journal.Much)
			r.consult()
		}
		require.LessOrEqual(t, r.reads(r.consult), journal.Much)
		require.LessOrEqual(t, r.reads(r.trip), journal.Much)
	})
	inStore(t, "and one that wrote it all itself", &store{}, func(t *testing.T, b *bench) {
		r := b.reader()
		r.attach()
		r.fill(20 * journal.Much)
		require.LessOrEqual(t, r.reads(r.trip), 2*journal.Much)
		require.LessOrEqual(t, r.reads(r.consult), 2*journal.Much)
	})
	inStore(t, "events of the last two seconds may be under way, and are read again", &store{}, func(t *testing.T, b *bench) {
		for range 2 * journal.Much {
			require.NoError(t, b.store.Append(t.Context(), b.extend(time.Second)))
		}
		r := b.reader()
		r.attach()
		require.Equal(t, 2*journal.Much, r.reads(r.consult))
		time.Sleep(3 * time.Second)
		r.consult()
		require.Zero(t, r.reads(r.consult))
	})
	inStore(t, "a late event is found, for another read of the last hour", &store{}, func(t *testing.T, b *bench) {
		b.fill(4 * 3600)
		r := b.reader()
		r.attach()
		late := b.extend(time.Hour)
		late.Timestamp = late.Timestamp.Add(-59 * time.Minute)
		require.NoError(t, b.store.Append(t.Context(), late))
		require.InDelta(t, 3600, r.reads(r.trip), 5)
		require.InDelta(t, 3600, r.reads(r.consult), 5)
		end, _ := b.cancel("wall_clock_exceeded")
		end.Timestamp = end.Timestamp.Add(-3 * time.Hour) // whose clock was wrong
		require.NoError(t, b.store.Append(t.Context(), end))
		known, err := r.Consult(t.Context())
		require.NoError(t, err)
		require.True(t, known.Over())
	})
	inStore(t, "what is counted does not grow with the window", &store{}, func(t *testing.T, b *bench) {
		r := b.reader()
		r.attach()
		for range 24 {
			b.fill(600)
			time.Sleep(20 * time.Minute)
			r.consult()
		}
		for range 12 {
			b.fill(600)
			time.Sleep(20 * time.Minute)
			require.LessOrEqual(t, r.reads(r.consult), 6*600)
			require.LessOrEqual(t, r.counts.known, 6*600)
		}
	})
	inStore(t, "nothing is noted as long as something cannot be read: somebody may correct it", &store{}, func(t *testing.T, b *bench) {
		b.fill(2 * journal.Much)
		require.NoError(t, b.store.Append(t.Context(), b.event(event.Extend, map[string]string{"extension_seconds": "seven"})))
		time.Sleep(time.Minute)
		r := b.reader()
		_, err := r.ReadWindow(t.Context(), b.name.StartedAt)
		require.ErrorIs(t, err, journal.ErrUnreadableEvent)
		for range 2 {
			require.Equal(t, 2*journal.Much+1, r.reads(func() {
				_, err := r.Consult(t.Context())
				require.ErrorIs(t, err, journal.ErrUnreadableEvent)
			}))
		}
	})
	inStore(t, "a store that does not answer is asked again after as many events", &store{}, func(t *testing.T, b *bench) {
		for _, fault := range []func(){func() {}, func() { panic("secret") }} {
			b.store.FailWith(func(_ context.Context, c call) error {
				if c.Kind == "select" {
					fault()
					return errFull
				}
				return nil
			})
			b.store.Kinds()
			b.fill(2 * journal.Much)
			selects := slices.DeleteFunc(b.store.Kinds(), func(kind string) bool { return kind != "select" })
			require.Len(t, selects, 2)
		}
		b.store.FailWith(nil)
		b.fill(journal.Much)
		r := b.reader()
		require.Equal(t, 5*journal.Much, r.reads(r.attach))
	})
	inStore(t, "a layer reads nothing", &store{}, func(t *testing.T, b *bench) {
		b.name.Begins = true
		b.name.Draw()
		layer := b.another()
		b.store.Kinds()
		for range 2 * journal.Much {
			require.NoError(t, layer.Append(t.Context(), b.extend(time.Second)))
		}
		require.NotContains(t, b.store.Kinds(), "select")
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A shiftedClock is that of a host whose clock is wrong.
type shiftedClock struct{ by time.Duration }

func (c shiftedClock) Now() time.Time { return time.Now().Add(c.by) }

func (c shiftedClock) AfterFunc(d time.Duration, f func()) clocks.Timer { return time.AfterFunc(d, f) }

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
		c := shiftedClock{time.Duration(w.IntN(3400)-1700) * time.Second}
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
func (w *world) next(by *writer) event.Event {
	start := by.stamp()
	var kind string
	var payload any
	used, rung := record.Used{ConfiguredBudgetSeconds: record.Seconds(w.IntN(2))}, record.Count(1+w.IntN(3))
	elapsed := record.ExactSeconds(by.clock.Now().Sub(by.name.StartedAt))
	opening := pick(w, w.openings)
	switch w.IntN(8) {
	case 0:
		kind, payload = event.Extend, record.Extend{SessionStartedAt: start, ExtensionSeconds: 1}
	case 1:
		kind, payload = event.Warning, record.Warning{SessionStartedAt: start, Used: used, Fraction: 0.5}
	case 2:
		kind, payload = event.WrapUp, record.WrapUp{SessionStartedAt: start, Used: used}
	case 3, 4:
		kind, payload = event.Wait, record.Trip{
			Reason: "idle_exceeded", SessionStartedAt: start, Directive: "wait", Rung: rung, Resets: w.some(),
		}
	case 5:
		kind, payload = event.Progress, record.Progress{SessionStartedAt: start, Resets: w.some()}
	case 6:
		kind, payload = event.Hold, record.Hold{
			SessionStartedAt: start, Hold: fmt.Sprint("ask-", w.IntN(2)), OpenedSeconds: elapsed, CapSeconds: 900,
		}
	default:
		w.openings = slices.DeleteFunc(w.openings, func(id string) bool { return id == opening })
		kind, payload = event.Release, record.Release{SessionStartedAt: start, Opening: opening, ReleasedSeconds: elapsed}
	}
	e := by.name.Event(kind, by.clock.Now(), "", payload)
	if kind == event.Wait {
		w.given = append(w.given, e.ID)
	} else if kind == event.Hold {
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
		_, _ = by.Transact(ctx, timeout, []event.Event{w.next(by)}, func(known *fold.Window) []event.Event {
			if !known.StartedAt.IsZero() { // else it could not be read
				w.requireSame(want, *known)
			}
			if known.Over() {
				return nil
			}
			return []event.Event{w.next(by)}
		})
	case n < 18:
		known, err := by.Consult(ctx)
		require.NoError(w.t, err)
		w.requireSame(w.whole().At(by.name.StartedAt), known)
	case n < 19:
		w.checkpoint(by)
	case w.IntN(4) == 0:
		w.reopen(by)
	}
	time.Sleep(time.Duration(w.IntN(20e6)) * time.Microsecond)
	synctest.Wait()
}

// checkpoint has a process of a version before write what it took the events to come to.
func (w *world) checkpoint(by *writer) {
	e := by.name.Event(record.Checkpoint, by.clock.Now(), "", map[string]any{
		"session_started_at": by.stamp(), "checkpointed_at": by.stamp(), "format": 1, "folded": map[string]any{
			"windows": []any{map[string]any{"session_started_at": by.stamp(), "extension_seconds": 3600}},
		},
	})
	_ = w.store.Append(w.t.Context(), e) // it may be refused
}

// reopen ends the window and opens the next, which both go on with.
func (w *world) reopen(by *writer) {
	cancel := record.Cancel{Reason: "idle_exceeded", SessionStartedAt: by.stamp(), FiredAt: event.Stamp(by.clock.Now())}
	if by.Append(w.t.Context(), by.name.Event(event.Cancel, by.clock.Now(), record.Once, cancel)) != nil {
		return
	}
	fresh := event.Truncate(by.clock.Now()).Add(time.Minute)
	resume := record.Resume{SessionStartedAt: event.Stamp(fresh), PreviousStartedAt: by.stamp()}
	for by.Append(w.t.Context(), by.name.Event(event.Resume, by.clock.Now(), record.Once, resume)) != nil {
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
	elapsed := w.writers[0].clock.Now().Sub(want.StartedAt)
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

// TestModel protects that a process which reads a window in parts knows what all events say, whatever stands in
// checkpoints of before.
func TestModel(t *testing.T) {
	defer func(before int) { journal.Much = before }(journal.Much)
	journal.Much = 5
	for seed := range racing.Rounds[uint64](6, 60) {
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
			})
		})
	}
}
