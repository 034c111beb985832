package watchdog_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

func TestAttach(t *testing.T) {
	runFixture(t, "a window that has its cancel event is fired from the start, with the stored stop", func(b *fixture) {
		wd := b.attach()
		b.pass(5 * time.Hour)
		first := b.stopped(wd)
		b.pass(time.Hour)
		b.cfg.Budget.WallClock = 24 * time.Hour
		require.Equal(b.t, first, b.stopped(b.attach()))
		require.Len(b.t, b.events(watchdog.EventCancel), 1)
	})
	runFixture(t, "the process whose append comes second reports the stop that was stored first", func(b *fixture) {
		b.cfg.PollOnly = true
		one := b.attach()
		b.pass(5 * time.Hour)
		var first *watchdog.Stop
		b.cfg.Store = &lateReader{EventStore: b.store, before: func() {
			b.pass(time.Second)
			first = b.stopped(one)
		}}
		other := b.attach() // it fires here, and has read the events before one appends
		require.Equal(b.t, first, b.stopped(other))
	})
}

func TestResume(t *testing.T) {
	runFixture(t, "a run resumed after its cancel gets a fresh window, recorded", func(b *fixture) {
		b.attach()
		b.pass(5 * time.Hour)
		wd := b.resume()
		b.live(wd)
		require.Equal(b.t, noon.Add(5*time.Hour), wd.StartedAt())
		require.Len(b.t, b.events(watchdog.EventResume), 1)
		b.pass(4 * time.Hour)
		b.live(wd)
		b.pass(1)
		b.stopped(wd)
		require.Len(b.t, b.events(watchdog.EventCancel), 2, "one for each window")
	})
	runFixture(t, "two processes that resume at once share one window", func(b *fixture) {
		b.attach()
		b.pass(5 * time.Hour)
		late := &lateReader{EventStore: b.store}
		late.before = func() {
			late.before = nil
			b.pass(time.Second)
			b.resume()
			b.pass(time.Second)
		}
		b.cfg.Store = late
		wd := b.resume()
		require.Equal(b.t, noon.Add(5*time.Hour+time.Second), wd.StartedAt())
		require.Len(b.t, b.events(watchdog.EventResume), 1)
	})
}

// lateReader does something between its host's read and its append.
type lateReader struct {
	watchdog.EventStore
	before func()
}

func (s *lateReader) Append(ctx context.Context, events ...watchdog.Event) error {
	if s.before != nil {
		s.before()
	}
	return s.EventStore.Append(ctx, events...)
}

// put stores an event as another writer would.
func (b *fixture) put(i int, kind, payload string) {
	b.t.Helper()
	require.NoError(b.t, b.store.Memory.Append(context.Background(), watchdog.Event{
		ID: fmt.Sprintf("other-%d", i), AggregateType: watchdog.AggregateType, AggregateID: b.run.ID, Type: kind,
		Payload: json.RawMessage(payload), Timestamp: noon.Add(time.Duration(i) * time.Second),
	}))
}

func TestUnreadableEvent(t *testing.T) {
	for name, payload := range map[string]string{
		"a time that is none": `{"session_started_at":"yesterday"}`,
	} {
		runFixture(t, name, func(b *fixture) {
			b.put(7, watchdog.EventCancel, payload)
			_, err := watchdog.New(b.t.Context(), b.run, b.cfg)
			require.ErrorIs(b.t, err, watchdog.ErrUnreadableEvent)
			require.ErrorContains(b.t, err, "other-7")
			require.ErrorContains(b.t, err, "correct or delete that event")
		})
	}
}

// A resumedMeanwhile is a store in which another process resumes the run just before the first append.
type resumedMeanwhile struct {
	watchdog.EventStore
	resume func()
}

func (s *resumedMeanwhile) Append(ctx context.Context, events ...watchdog.Event) error {
	if resume := s.resume; resume != nil {
		s.resume = nil
		resume()
	}
	return s.EventStore.Append(ctx, events...)
}

func TestResumeFails(t *testing.T) {
	inCancelled := func(t *testing.T, test func(b *fixture, k *fakeKeeper)) {
		inKeepersBed(t, func(b *fixture, k *fakeKeeper) {
			wd := b.attach()
			b.pass(over)
			b.stopped(wd)
			k.kept = nil
			test(b, k)
		})
	}
	stillCancelled := func(b *fixture, k *fakeKeeper) {
		require.Len(b.t, k.kept, 1)
		require.Error(b.t, k.kept[0].Context().Err(), "it is kept no longer")
		require.Empty(b.t, b.events(watchdog.EventResume))
		b.stopped(b.attach())
	}
	t.Run("a run that cannot be kept is not resumed", func(t *testing.T) {
		inCancelled(t, func(b *fixture, k *fakeKeeper) {
			k.keep = func(_ context.Context, w *watchdog.Watchdog) error {
				require.Equal(b.t, noon.Add(over).Truncate(time.Microsecond), w.StartedAt(), "the row names the fresh window")
				return errDiskFull
			}
			_, err := watchdog.Resume(context.Background(), b.run, b.cfg)
			require.ErrorIs(t, err, errDiskFull)
			stillCancelled(b, k)
		})
	})
	t.Run("a run whose resumption cannot be recorded is kept no longer", func(t *testing.T) {
		inCancelled(t, func(b *fixture, k *fakeKeeper) {
			b.store.set(func(s *flakyStore) { s.fail = errDiskFull })
			_, err := watchdog.Resume(context.Background(), b.run, b.cfg)
			require.ErrorIs(t, err, errDiskFull)
			stillCancelled(b, k)
		})
	})
	t.Run("an error after the run is resumed says that it is", func(t *testing.T) {
		inCancelled(t, func(b *fixture, k *fakeKeeper) {
			store := &resumedMeanwhile{EventStore: b.store}
			store.resume = func() { b.store.set(func(s *flakyStore) { s.failGet = errDiskFull }) }
			b.cfg.Store = store
			_, err := watchdog.Resume(context.Background(), b.run, b.cfg)
			require.ErrorIs(t, err, errDiskFull)
			require.ErrorContains(t, err, "the run is resumed")
			require.Error(t, k.kept[0].Context().Err())
		})
	})
	t.Run("a run that another process resumes meanwhile goes on in that window, and is kept in it", func(t *testing.T) {
		inCancelled(t, func(b *fixture, k *fakeKeeper) {
			cfg, other := b.cfg, (*watchdog.Watchdog)(nil)
			store := &resumedMeanwhile{EventStore: b.store}
			store.resume = func() {
				b.clock.step(-minute)
				cfg.Keeper = nil
				other, _ = watchdog.Resume(context.Background(), b.run, cfg)
				b.clock.step(minute)
			}
			b.cfg.Store = store
			wd := b.resume()
			defer other.Close()
			require.Equal(t, other.StartedAt(), wd.StartedAt())
			require.Len(t, b.events(watchdog.EventResume), 1)
			require.Len(t, k.kept, 2)
			require.Same(t, wd, k.kept[1])
			require.Error(t, k.kept[0].Context().Err())
			b.live(wd)
		})
	})
}

// TestFreshWindows protects that a layer shares nothing with what ran under its name before, whatever clocks say.
func TestFreshWindows(t *testing.T) {
	layer := func(b *fixture, wd *watchdog.Watchdog) *watchdog.Watchdog {
		b.t.Helper()
		step, err := wd.Layer("step", watchdog.Budget{WallClock: 500 * time.Millisecond})
		require.NoError(b.t, err)
		b.t.Cleanup(func() { step.Close() })
		return step
	}
	runFixture(t, "within the same second", func(b *fixture) {
		wd := b.attach()
		first := layer(b, wd)
		b.pass(56 * time.Millisecond)
		require.NoError(b.t, first.Extend(time.Hour))
		require.NoError(b.t, first.Close())
		second := layer(b, wd)
		require.Zero(b.t, second.Elapsed())
		require.Equal(b.t, 500*time.Millisecond, second.Remaining())
	})
	runFixture(t, "at one instant, side by side", func(b *fixture) {
		wd := b.attach()
		one, other := layer(b, wd), layer(b, wd)
		stop, err := one.Cancel(watchdog.Cancellation{Reason: "host_gone"})
		require.NoError(b.t, err)
		b.live(other)
		again, err := other.Cancel(watchdog.Cancellation{Reason: "host_gone"})
		require.NoError(b.t, err)
		require.NotEqual(b.t, stop.EventID(), again.EventID())
		events, err := b.store.Memory.Read(b.t.Context(), watchdog.AggregateType, "s-1/step")
		require.NoError(b.t, err)
		require.Len(b.t, events, 2)
		require.ElementsMatch(b.t, []string{stop.EventID(), again.EventID()}, []string{events[0].ID, events[1].ID})
	})
	runFixture(t, "and nothing is read for it", func(b *fixture) {
		wd := b.attach()
		b.store.set(func(s *flakyStore) { s.failGet = errDiskFull })
		b.live(layer(b, wd))
	})
	runFixture(t, "a run with a slash in its ID is not the layer of that name", func(b *fixture) {
		wd := b.attach()
		step := layer(b, wd)
		b.pass(time.Second)
		b.stopped(step)
		session := b.run
		session.ID = "s-1/step"
		other, err := watchdog.New(b.t.Context(), session, b.cfg)
		require.NoError(b.t, err)
		defer other.Close()
		b.live(other)
	})
	runFixture(t, "its events name it last", func(b *fixture) {
		step := layer(b, b.attach())
		b.pass(time.Second)
		b.stopped(step)
		events, err := b.store.Memory.Read(b.t.Context(), watchdog.AggregateType, "s-1/step")
		require.NoError(b.t, err)
		for _, e := range events {
			var payload struct{ Window string }
			require.NoError(b.t, json.Unmarshal(e.Payload, &payload))
			require.Regexp(b.t, `,"window":"[0-9a-f-]{36}"}$`, string(e.Payload))
		}
	})
}

// TestWindowChain protects that what a resume opened counts, and not what has the latest start.
func TestWindowChain(t *testing.T) {
	runFixture(t, "a resume dated ahead is an error that names it, and another resume opens a window after it", func(b *fixture) {
		b.attach()
		b.pass(over)
		b.put(9, watchdog.EventResume,
			`{"session_started_at":"2026-05-04T12:00:00Z","previous_started_at":"2026-05-01T12:00:00Z"}`)
		_, err := watchdog.New(b.t.Context(), b.run, b.cfg)
		require.ErrorIs(b.t, err, watchdog.ErrInvalid)
		require.ErrorContains(b.t, err, "other-9")
		require.ErrorContains(b.t, err, "in the future")
		wd := b.resume()
		b.live(wd)
		require.Equal(b.t, b.clock.Now().Truncate(time.Microsecond), wd.StartedAt())
		b.pass(time.Hour)
		require.Equal(b.t, time.Hour, b.attach().Elapsed().Truncate(time.Second))
	})
}

// TestOtherWriters protects that what others left in the events of a run is read.
func TestOtherWriters(t *testing.T) {
}
