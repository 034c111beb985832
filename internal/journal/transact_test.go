package journal_test

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/journal"
	"github.com/seed62658d38/watchdog/internal/journal/journaltest"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/record"
)

var errFull = journaltest.ErrFull

type (
	store = journaltest.Store
	call  = journaltest.Call
)

// A bench is a run and its store.
type bench struct {
	t     *testing.T
	store *store
	place *journal.Place
	name  machine.Name
	*journal.Journal
}

const timeout = 5 * time.Second

func newBench(t *testing.T, s *store, change ...func(*journal.Place)) *bench {
	s.Keeps = true
	place := &journal.Place{Store: s.Journal(), Timeout: timeout}
	for _, one := range change {
		one(place)
	}
	b := &bench{t: t, store: s, place: place}
	b.name = machine.Name{Run: "s-1", StartedAt: event.Truncate(time.Now())}
	b.Journal = b.another()
	return b
}

// another is the journal of a process that knows nothing yet.
func (b *bench) another() *journal.Journal {
	j := &journal.Journal{}
	j.Open(b.place, &b.name)
	return j
}

// inBubble runs the test with a store that can transact, and with one that cannot.
func inBubble(t *testing.T, name string, test func(t *testing.T, b *bench)) {
	for kind, steps := range map[string]bool{"transacts": false, "takes steps": true} {
		t.Run(name+", if the store "+kind, func(t *testing.T) {
			withStore(t, &store{Steps: steps}, test)
		})
	}
}

// inStore runs the test with a store.
func inStore(t *testing.T, name string, s *store, test func(t *testing.T, b *bench)) {
	t.Run(name, func(t *testing.T) { withStore(t, s, test) })
}

func withStore(t *testing.T, s *store, test func(t *testing.T, b *bench)) {
	synctest.Test(t, func(t *testing.T) { test(t, newBench(t, s)) })
}

func (b *bench) stamp() event.Stamp { return event.Stamp(b.name.StartedAt) }

func (b *bench) event(kind string, payload any) event.Event {
	return b.name.Event(kind, time.Now(), "", payload)
}

func (b *bench) extend(d time.Duration) event.Event {
	return b.event(event.Extend, record.Extend{
		SessionStartedAt: b.stamp(), ExtensionSeconds: record.FloatSeconds(d),
	})
}

func (b *bench) cancel(reason string) (event.Event, *record.Cancel) {
	now := time.Now()
	p := &record.Cancel{Reason: reason, SessionStartedAt: b.stamp(), FiredAt: event.Stamp(event.Truncate(now))}
	return b.name.Event(event.Cancel, now, record.Once, p), p
}

// fill appends so many events, a second apart.
func (b *bench) fill(events int) {
	for range events {
		time.Sleep(time.Second)
		require.NoError(b.t, b.Append(b.t.Context(), b.extend(time.Second)))
	}
}

// transact has an exchange decide on the events.
func (b *bench) transact(events ...event.Event) journal.Result {
	r, err := b.Transact(b.t.Context(), timeout, nil, always(events...))
	require.NoError(b.t, err)
	return r
}

// found is the window that a process finds which attaches with a start.
func (b *bench) found(host time.Time) fold.Window {
	found, err := b.another().ReadWindow(b.t.Context(), host)
	require.NoError(b.t, err)
	return found
}

// always decides on the events, whatever is known.
func always(events ...event.Event) journal.Decide {
	return func(*fold.Window) []event.Event { return events }
}

// keeps are the IDs of the events that the store has of a kind, of all if none is named.
func (b *bench) keeps(kinds ...string) (ids []string) {
	for _, e := range b.store.All(b.name.Run) {
		if len(kinds) == 0 || slices.Contains(kinds, e.Type) {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

func ids(events ...event.Event) (all []string) {
	for _, e := range events {
		all = append(all, e.ID)
	}
	return all
}

// TestTransact protects what an exchange about a window appends, and what it says that the store has then.
func TestTransact(t *testing.T) {
	inBubble(t, "what is decided goes behind what comes before it", func(t *testing.T, b *bench) {
		before, e := b.extend(time.Minute), b.extend(time.Hour)
		r, err := b.Transact(t.Context(), timeout, []event.Event{before}, always(e))
		require.NoError(t, err)
		require.NoError(t, r.Unread)
		require.Equal(t, e.ID, r.Kept.ID)
		require.Equal(t, ids(before), ids(r.Before...))
		require.ElementsMatch(t, ids(before, e), b.keeps())
		after := b.After(r)
		require.Equal(t, time.Hour+time.Minute, after.Extended)
	})
	inBubble(t, "where nothing is decided nothing is kept", func(t *testing.T, b *bench) {
		r, err := b.Transact(t.Context(), timeout, []event.Event{b.extend(time.Minute)}, always())
		require.NoError(t, err)
		require.Nil(t, r.Kept)
		require.Empty(t, r.Before)
		require.Empty(t, b.keeps())
		require.Zero(t, b.After(r).Extended)
	})
	inBubble(t, "it is decided in view of what another process stored", func(t *testing.T, b *bench) {
		require.NoError(t, b.another().Append(t.Context(), b.extend(time.Hour)))
		seen := time.Duration(0)
		_, err := b.Transact(t.Context(), timeout, nil, func(known *fold.Window) []event.Event {
			seen = known.Extended
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, time.Hour, seen)
	})
	inBubble(t, "the end of a window is whose came first", func(t *testing.T, b *bench) {
		first, _ := b.cancel("idle_exceeded")
		require.NoError(t, b.another().Append(t.Context(), first))
		own, cancel := b.cancel("wall_clock_exceeded")
		r := b.transact(own)
		require.Equal(t, "idle_exceeded", b.End(r, &own, cancel).Stop.Reason)
		known, err := b.EndAfter(r)
		require.NoError(t, err)
		require.Equal(t, "idle_exceeded", known.Stop.Reason)
		require.Equal(t, ids(first), b.keeps())
	})
	inBubble(t, "an end that only this process wrote is its own", func(t *testing.T, b *bench) {
		own, cancel := b.cancel("wall_clock_exceeded")
		r := b.transact(own)
		require.Same(t, cancel, b.End(r, &own, cancel).Stop)
	})
	inBubble(t, "an end that cannot be read is an error after it", func(t *testing.T, b *bench) {
		own, cancel := b.cancel("wall_clock_exceeded")
		damaged := own
		damaged.Payload = []byte(`{"session_started_at":7}`)
		require.NoError(t, b.another().Append(t.Context(), damaged))
		r := b.transact(own)
		_, err := b.EndAfter(r)
		require.ErrorIs(t, err, journal.ErrUnreadableEvent)
		require.Same(t, cancel, b.End(r, &own, cancel).Stop, "nobody else's can be read")
	})
	inBubble(t, "what comes before is left out if the store refuses it", func(t *testing.T, b *bench) {
		before, e := b.extend(time.Minute), b.extend(time.Hour)
		b.store.FailWith(func(_ context.Context, c call) error {
			if slices.Contains(ids(c.Events...), before.ID) {
				return errFull
			}
			return nil
		})
		r, err := b.Transact(t.Context(), timeout, []event.Event{before}, always(e))
		require.NoError(t, err)
		require.NoError(t, r.Unread)
		require.Empty(t, r.Before)
		require.Equal(t, ids(e), b.keeps())
	})
	inBubble(t, "events that cannot be read hold up nothing", func(t *testing.T, b *bench) {
		b.store.FailWith(func(_ context.Context, c call) error {
			if c.Kind != "append" {
				return errFull
			}
			return nil
		})
		own, cancel := b.cancel("wall_clock_exceeded")
		r, err := b.Transact(t.Context(), timeout, nil, func(known *fold.Window) []event.Event {
			require.False(t, known.Over())
			return []event.Event{own}
		})
		require.NoError(t, err)
		require.ErrorIs(t, r.Unread, errFull)
		require.Same(t, cancel, b.End(r, &own, cancel).Stop)
		_, err = b.EndAfter(r)
		require.EqualError(t, err, "read what was kept: disk full")
		require.ErrorIs(t, err, errFull)
		require.Equal(t, ids(own), b.keeps())
	})
	t.Run("a store that can transact is asked once, any other reads before and after", func(t *testing.T) {
		for steps, calls := range map[bool][]string{false: {"transact", "keep"}, true: {"read", "append", "read"}} {
			withStore(t, &store{Steps: steps}, func(t *testing.T, b *bench) {
				b.transact(b.extend(time.Hour))
				require.Equal(t, calls, b.store.Kinds())
			})
		}
	})
}

// TestFault protects the caller of a store that misbehaves, and the next call.
func TestFault(t *testing.T) {
	faults := map[string]struct {
		fault func(ctx context.Context) error
		is    error
		text  string
		takes time.Duration
	}{
		"refuses": {func(context.Context) error { return errFull }, errFull, "disk full", 0},
		"panics": {
			func(context.Context) error { panic("secret") }, nil, "event store panicked with a string", 0,
		},
		"ends its goroutine": {
			func(context.Context) error { runtime.Goexit(); return nil }, journal.ErrExited,
			"event store: it ended its goroutine", 0,
		},
		"hangs as long as it may": {
			func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, context.DeadlineExceeded, "", timeout,
		},
		"ignores its time-out": {
			func(context.Context) error { time.Sleep(time.Hour); return nil }, context.DeadlineExceeded,
			"event store did not answer in time (5s): context deadline exceeded", timeout,
		},
	}
	for name, c := range faults {
		inBubble(t, "the store "+name, func(t *testing.T, b *bench) {
			b.store.FailWith(func(ctx context.Context, _ call) error { return c.fault(ctx) })
			began, e := time.Now(), b.extend(time.Hour)
			_, err := b.Transact(t.Context(), timeout, []event.Event{b.extend(time.Minute)}, always(e))
			require.Error(t, err)
			require.Equal(t, c.takes, time.Since(began))
			if c.is != nil {
				require.ErrorIs(t, err, c.is)
			}
			if c.text != "" {
				require.EqualError(t, err, c.text)
			}
			if calls := b.store.Kinds(); c.takes == timeout {
				require.NotContains(t, calls[1:], calls[0], "it is not asked twice for what it was too slow for")
			}
			b.store.FailWith(nil)
			time.Sleep(time.Hour)
			synctest.Wait()
			require.False(t, b.Busy(), "the run can talk again")
			b.transact(e)
			require.Contains(t, b.keeps(), e.ID)
		})
	}
}

// TestWithin protects that the exchanges of a run do not overlap, and how long each lasts.
func TestWithin(t *testing.T) {
	hang := func(context.Context, call) error { time.Sleep(time.Minute); return nil }
	inBubble(t, "a run whose store hangs is not asked for again", func(t *testing.T, b *bench) {
		b.store.FailWith(hang)
		e, began := b.extend(time.Hour), time.Now()
		for range 2 {
			require.ErrorIs(t, b.Append(t.Context(), e), context.DeadlineExceeded)
		}
		require.Equal(t, 2*timeout, time.Since(began))
		require.Equal(t, []string{"append"}, b.store.Kinds())
		require.True(t, b.Busy())
		require.False(t, b.Enter())
		time.Sleep(time.Minute)
		require.False(t, b.Busy())
		require.Equal(t, ids(e), b.keeps(), "the late answer has its effect")
	})
	inBubble(t, "who waits for a conversation has the rest of its time for its own", func(t *testing.T, b *bench) {
		require.True(t, b.Enter())
		time.AfterFunc(3*time.Second, b.Leave)
		b.store.FailWith(hang)
		began := time.Now()
		require.ErrorIs(t, b.Append(t.Context(), b.extend(time.Hour)), context.DeadlineExceeded)
		require.Equal(t, timeout, time.Since(began))
		require.Equal(t, []string{"append"}, b.store.Kinds())
		time.Sleep(time.Hour)
	})
	inBubble(t, "the caller goes away, and its cause is the error", func(t *testing.T, b *bench) {
		b.store.FailWith(hang)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errFull) })
		began := time.Now()
		err := b.Append(ctx, b.extend(time.Hour))
		require.EqualError(t, err, "wait for the event store: disk full")
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, time.Second, time.Since(began))
		time.Sleep(time.Hour)
	})
	inBubble(t, "who has no time left does not ask", func(t *testing.T, b *bench) {
		_, err := b.Transact(t.Context(), 0, nil, always(b.extend(time.Hour)))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Empty(t, b.store.Kinds())
	})
	inBubble(t, "inline the caller carries, and is as free as the store lets it", func(t *testing.T, b *bench) {
		b.place.Inline = true
		b.store.FailWith(hang)
		began := time.Now()
		require.NoError(t, b.Append(t.Context(), b.extend(time.Hour)))
		require.Equal(t, time.Minute, time.Since(began))
		b.store.FailWith(func(context.Context, call) error { runtime.Goexit(); return nil })
		returned, ended := false, make(chan struct{})
		go func() {
			defer close(ended)
			b.Append(t.Context(), b.extend(time.Hour))
			returned = true
		}()
		<-ended
		require.False(t, returned, "it is the caller's goroutine that the store ended")
		require.False(t, b.Busy())
		b.store.FailWith(func(ctx context.Context, _ call) error { <-ctx.Done(); return ctx.Err() })
		began = time.Now()
		require.ErrorIs(t, b.Append(t.Context(), b.extend(time.Hour)), context.DeadlineExceeded)
		require.Equal(t, timeout, time.Since(began))
		b.store.FailWith(func(context.Context, call) error { panic("secret") })
		require.EqualError(t, b.Append(t.Context(), b.extend(time.Hour)), "event store panicked with a string")
	})
	inBubble(t, "a store that answers at once is asked beside another exchange, with no time-out", func(t *testing.T, b *bench) {
		b.place.Instant = true
		require.True(t, b.Enter())
		b.store.FailWith(func(ctx context.Context, _ call) error {
			_, bounded := ctx.Deadline()
			require.False(t, bounded)
			return nil
		})
		require.NoError(t, b.Append(t.Context(), b.extend(time.Hour)))
		b.Leave()
	})
}

// TestAwait protects how long a caller waits for what others do.
func TestAwait(t *testing.T) {
	withStore(t, &store{}, func(t *testing.T, b *bench) {
		began, done := time.Now(), make(chan struct{})
		waited := func(done <-chan struct{}) time.Duration {
			before := time.Now()
			b.place.Await(began, done)
			return time.Since(before)
		}
		require.Zero(t, waited(nil))
		time.AfterFunc(2*time.Second, func() { close(done) })
		require.Equal(t, 2*time.Second, waited(done))
		require.Equal(t, 3*time.Second, waited(make(chan struct{})), "what is left of the time-out")
		require.Zero(t, waited(make(chan struct{})))
		require.Zero(t, b.place.Left(began))
		require.Equal(t, timeout, b.place.Left(time.Now().Add(time.Hour)), "a clock that went back gives no more")
	})
}

// TestConsult protects what is read of a window between.
func TestConsult(t *testing.T) {
	inBubble(t, "what others did to the window is found", func(t *testing.T, b *bench) {
		require.NoError(t, b.another().Append(t.Context(), b.extend(time.Hour)))
		known, err := b.Consult(t.Context())
		require.NoError(t, err)
		require.Equal(t, time.Hour, known.Extended)
	})
	inBubble(t, "an event of the window that cannot be read is an error", func(t *testing.T, b *bench) {
		damaged := b.event(event.Extend, map[string]string{"extension_seconds": "seven"})
		require.NoError(t, b.Append(t.Context(), damaged))
		_, err := b.Consult(t.Context())
		require.ErrorIs(t, err, journal.ErrUnreadableEvent)
		unreadable := (*fold.UnreadableError)(nil)
		require.ErrorAs(t, err, &unreadable)
		require.Equal(t, damaged.ID, unreadable.Event.ID)
		_, err = b.ReadWindow(t.Context(), b.name.StartedAt)
		require.ErrorIs(t, err, journal.ErrUnreadableEvent)
		require.ErrorContains(t, err, "correct or delete that event")
	})
	inBubble(t, "a store that refuses is an error", func(t *testing.T, b *bench) {
		b.store.FailWith(func(context.Context, call) error { return errFull })
		_, err := b.Consult(t.Context())
		require.EqualError(t, err, "read events: disk full")
		_, err = b.ReadWindow(t.Context(), b.name.StartedAt)
		require.EqualError(t, err, "read events of run s-1: disk full")
		require.ErrorIs(t, err, errFull)
	})
}

// chain has so many windows opened, each two hours after the one before, which has its cancel and an extension. It
// returns the starts of all.
func (b *bench) chain(windows int) (starts []time.Time) {
	starts = append(starts, b.name.StartedAt)
	for range windows - 1 {
		b.fill(1)
		cancel, _ := b.cancel("wall_clock_exceeded")
		require.NoError(b.t, b.store.Append(b.t.Context(), cancel))
		time.Sleep(2 * time.Hour)
		starts = append(starts, b.resume())
	}
	return starts
}

// resume opens a window after the one that the run is in, and returns its start. The journals of before are done with.
func (b *bench) resume() time.Time { return b.resumeAt(time.Now()) }

func (b *bench) resumeAt(at time.Time) time.Time {
	fresh := event.Truncate(at)
	m := machine.Moment{Name: &b.name, At: at}
	require.NoError(b.t, b.store.Append(b.t.Context(), m.Resume(fresh)))
	b.name.StartedAt = fresh
	b.Journal = b.another()
	return fresh
}

// whole is the window that all events tell of.
func (b *bench) whole(hostStart time.Time) fold.Window {
	h := fold.Of(fold.WindowID{}, b.store.All(b.name.Run))
	return h.Current(hostStart)
}

// TestReadWindow protects which window a process finds that attaches, and what that costs.
func TestReadWindow(t *testing.T) {
	inBubble(t, "a run without events is in its first window", func(t *testing.T, b *bench) {
		found, err := b.ReadWindow(t.Context(), b.name.StartedAt)
		require.NoError(t, err)
		require.Equal(t, fold.Window{StartedAt: b.name.StartedAt}, found)
	})
	inBubble(t, "the chain of windows is followed to its end", func(t *testing.T, b *bench) {
		starts := b.chain(7)
		b.fill(2)
		time.Sleep(2 * time.Hour)
		for _, host := range starts {
			found := b.found(host)
			require.Equal(t, starts[6], found.StartedAt)
			require.Equal(t, 2*time.Second, found.Extended)
			require.NotEmpty(t, found.OpenedBy)
			require.Nil(t, found.Stop)
		}
	})
	inBubble(t, "a start after an end opens a window", func(t *testing.T, b *bench) {
		starts := b.chain(2)
		cancel, _ := b.cancel("wall_clock_exceeded")
		require.NoError(t, b.store.Append(t.Context(), cancel))
		time.Sleep(3 * time.Hour)
		host := event.Truncate(time.Now())
		found := b.found(host)
		require.Equal(t, host, found.StartedAt)
		require.Equal(t, host.Add(time.Microsecond), found.NextStart(host))
		found = b.found(starts[0])
		require.NotNil(t, found.Stop)
	})
	cost := func(b *bench, host time.Time) map[string]int {
		b.store.Kinds()
		found := b.found(host)
		require.Equal(b.t, b.name.StartedAt, found.StartedAt)
		calls := map[string]int{}
		for _, call := range b.store.Kinds() {
			calls[call]++
		}
		return calls
	}
	inStore(t, "the windows between the host's and the last are not read", &store{}, func(t *testing.T, b *bench) {
		starts := b.chain(200)
		for _, host := range starts[:199] {
			require.Equal(t, map[string]int{"select": 3}, cost(b, host))
		}
		require.Equal(t, map[string]int{"select": 1}, cost(b, starts[199]))
		r := b.reader()
		require.LessOrEqual(t, r.reads(func() { b.found(starts[0]) }), 5)
	})
	inStore(t, "the windows behind that of a clock that was ahead are found", &store{}, func(t *testing.T, b *bench) {
		host := b.name.StartedAt
		b.resumeAt(time.Now().Add(10_000 * time.Hour))
		for range 150 {
			time.Sleep(2 * time.Hour)
			b.resume()
		}
		require.Equal(t, map[string]int{"select": 5}, cost(b, host))
	})
	inStore(t, "a run with next to no events is read whole", &store{Sparse: true}, func(t *testing.T, b *bench) {
		require.Equal(t, map[string]int{"read": 1}, cost(b, b.chain(3)[0]))
	})
	inStore(t, "a run that began within the hour is read at once", &store{}, func(t *testing.T, b *bench) {
		b.fill(20)
		require.Equal(t, map[string]int{"select": 2}, cost(b, b.name.StartedAt))
		time.Sleep(2 * time.Hour)
		require.Equal(t, map[string]int{"select": 3}, cost(b, b.name.StartedAt))
	})
	inBubble(t, "a circle of windows comes to an end", func(t *testing.T, b *bench) {
		starts := b.chain(3)
		m := machine.Moment{Name: &b.name, At: time.Now()}
		require.NoError(t, b.store.Append(t.Context(), m.Resume(starts[0])))
		time.Sleep(2 * time.Hour)
		for _, host := range starts {
			found := b.found(host)
			require.Equal(t, b.whole(host), found)
		}
	})
	inBubble(t, "a window that was opened later and began earlier is read from its own start", func(t *testing.T, b *bench) {
		time.Sleep(24 * time.Hour)
		b.name.StartedAt = event.Truncate(time.Now())
		host := b.name.StartedAt
		time.Sleep(10 * time.Minute)
		early := host.Add(-90 * time.Minute) // as a clock shows it that is wrong
		resume := b.event(event.Resume, record.Resume{SessionStartedAt: event.Stamp(early), PreviousStartedAt: b.stamp()})
		b.name.StartedAt = early
		extend := b.extend(time.Hour)
		extend.Timestamp = early.Add(10 * time.Minute)
		require.NoError(t, b.store.Append(t.Context(), resume, extend))
		found := b.found(host)
		require.Equal(t, b.whole(host), found)
		require.Equal(t, early, found.StartedAt)
		require.Equal(t, time.Hour, found.Extended)
	})
	inBubble(t, "a resume under another name is found at the end of the chain", func(t *testing.T, b *bench) {
		starts := b.chain(3)
		b.fill(1)
		for range 2 { // neither is found by its ID
			previous := b.stamp()
			time.Sleep(2 * time.Hour)
			fresh := event.Truncate(time.Now())
			e := b.event(event.Resume, record.Resume{
				SessionStartedAt: event.Stamp(fresh), PreviousStartedAt: previous,
			})
			require.NoError(t, b.store.Append(t.Context(), e))
			b.name.StartedAt = fresh
		}
		time.Sleep(3 * time.Hour)
		for _, host := range starts {
			found := b.found(host)
			require.Equal(t, b.name.StartedAt, found.StartedAt)
			require.True(t, slices.Contains(b.keeps(event.Resume), found.OpenedBy))
		}
	})
}
