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

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/journal"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

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
