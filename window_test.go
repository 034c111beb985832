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
	t.Run("a window that has its cancel event is fired from the start, with the stored stop", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			wd := b.attach()
			b.pass(5 * time.Hour)
			first := b.stopped(wd)
			b.pass(time.Hour)
			b.cfg.Budget.WallClock = 24 * time.Hour
			require.Equal(t, first, b.stopped(b.attach()))
			require.Len(t, b.events(watchdog.EventCancel), 1)
		})
	})
	t.Run("the process whose append comes second reports the stop that was stored first", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.PollOnly = true
			one := b.attach()
			b.pass(5 * time.Hour)
			var first *watchdog.Stop
			b.cfg.Store = &lateReader{EventStore: b.store, before: func() {
				b.pass(time.Second)
				first = b.stopped(one)
			}}
			other := b.attach() // it fires here, and has read the events before one appends
			require.Equal(t, first, b.stopped(other))
		})
	})
}

func TestResume(t *testing.T) {
	t.Run("a run resumed after its cancel gets a fresh window, recorded", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.attach()
			b.pass(5 * time.Hour)
			wd := b.resume()
			b.live(wd)
			require.Equal(t, noon.Add(5*time.Hour), wd.StartedAt())
			require.Len(t, b.events(watchdog.EventResume), 1)
			b.pass(4 * time.Hour)
			b.live(wd)
			b.pass(1)
			b.stopped(wd)
			require.Len(t, b.events(watchdog.EventCancel), 2, "one for each window")
		})
	})
	t.Run("two processes that resume at once share one window", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
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
			require.Equal(t, noon.Add(5*time.Hour+time.Second), wd.StartedAt())
			require.Len(t, b.events(watchdog.EventResume), 1)
		})
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
		t.Run(name, func(t *testing.T) {
			inFixture(t, func(b *fixture) {
				b.put(7, watchdog.EventCancel, payload)
				_, err := watchdog.New(b.t.Context(), b.run, b.cfg)
				require.ErrorIs(t, err, watchdog.ErrUnreadableEvent)
				require.ErrorContains(t, err, "other-7")
				require.ErrorContains(t, err, "correct or delete that event")
			})
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
	t.Run("within the same second", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			wd := b.attach()
			first := layer(b, wd)
			b.pass(56 * time.Millisecond)
			require.NoError(t, first.Extend(time.Hour))
			require.NoError(t, first.Close())
			second := layer(b, wd)
			require.Zero(t, second.Elapsed())
			require.Equal(t, 500*time.Millisecond, second.Remaining())
		})
	})
	t.Run("at one instant, side by side", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			wd := b.attach()
			one, other := layer(b, wd), layer(b, wd)
			stop, err := one.Cancel(watchdog.Cancellation{Reason: "host_gone"})
			require.NoError(t, err)
			b.live(other)
			again, err := other.Cancel(watchdog.Cancellation{Reason: "host_gone"})
			require.NoError(t, err)
			require.NotEqual(t, stop.EventID(), again.EventID())
			events, err := b.store.Memory.Read(b.t.Context(), watchdog.AggregateType, "s-1/step")
			require.NoError(t, err)
			require.Len(t, events, 2)
			require.ElementsMatch(t, []string{stop.EventID(), again.EventID()}, []string{events[0].ID, events[1].ID})
		})
	})
	t.Run("after a cancel, with the clock set back", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.clock.step(time.Hour)
			wd := b.attach()
			step := layer(b, wd)
			b.pass(501 * time.Millisecond)
			b.stopped(step)
			b.clock.step(-time.Minute)
			again := layer(b, wd)
			b.live(again)
			b.pass(500 * time.Millisecond)
			b.live(again)
			b.pass(time.Millisecond)
			b.stopped(again)
		})
	})
	t.Run("and nothing is read for it", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			wd := b.attach()
			b.store.set(func(s *flakyStore) { s.failGet = errDiskFull })
			b.live(layer(b, wd))
		})
	})
	t.Run("a run with a slash in its ID is not the layer of that name", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			wd := b.attach()
			step := layer(b, wd)
			b.pass(time.Second)
			b.stopped(step)
			session := b.run
			session.ID = "s-1/step"
			other, err := watchdog.New(b.t.Context(), session, b.cfg)
			require.NoError(t, err)
			defer other.Close()
			b.live(other)
		})
	})
	t.Run("its events name it last", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			step := layer(b, b.attach())
			b.pass(time.Second)
			b.stopped(step)
			events, err := b.store.Memory.Read(b.t.Context(), watchdog.AggregateType, "s-1/step")
			require.NoError(t, err)
			for _, e := range events {
				var payload struct{ Window string }
				require.NoError(t, json.Unmarshal(e.Payload, &payload))
				require.Regexp(t, `,"window":"[0-9a-f-]{36}"}$`, string(e.Payload))
			}
		})
	})
}

// TestWindowChain protects that what a resume opened counts, and not what has the latest start.
func TestWindowChain(t *testing.T) {
	t.Run("on a host that is hours behind", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.attach()
			b.pass(over)
			for i := range 4 { // at 16:00, 15:00, 14:00 and 13:00
				if i > 0 {
					b.clock.step(-5 * time.Hour)
				}
				wd := b.resume()
				b.live(wd)
				b.live(b.attach())
				b.pass(over)
				b.stopped(wd)
				b.stopped(b.attach())
			}
			require.Len(t, b.events(watchdog.EventCancel), 5)
			require.Len(t, b.events(watchdog.EventResume), 4)
		})
	})
	t.Run("for a host that persisted one in the middle, whose start is the latest", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			resumeAfter := func(step time.Duration) *watchdog.Watchdog {
				_, err := b.attach().Cancel(watchdog.Cancellation{Reason: "host_gone"})
				require.NoError(t, err)
				b.clock.step(step)
				return b.resume()
			}
			persisted := resumeAfter(10 * time.Minute).StartedAt()
			last := resumeAfter(-5 * time.Minute).StartedAt()
			b.clock.step(5 * time.Minute)
			b.run.StartedAt = persisted
			wd := b.attach()
			require.Equal(t, last, wd.StartedAt())
			_, err := wd.Cancel(watchdog.Cancellation{Reason: "host_gone"})
			require.NoError(t, err)
			_, fired := b.attach().Fired()
			require.True(t, fired)
		})
	})
	t.Run("twice at one instant", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			_, err := b.attach().Cancel(watchdog.Cancellation{Reason: "host_gone"})
			require.NoError(t, err)
			wd := b.resume()
			_, err = wd.Cancel(watchdog.Cancellation{Reason: "host_gone"})
			require.NoError(t, err)
			b.live(b.resume())
			b.live(b.attach())
			require.Len(t, b.events(watchdog.EventResume), 2)
		})
	})
	t.Run("a resume dated ahead is an error that names it, and another resume opens a window after it", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.attach()
			b.pass(over)
			b.put(9, watchdog.EventResume,
				`{"session_started_at":"2026-05-04T12:00:00Z","previous_started_at":"2026-05-01T12:00:00Z"}`)
			_, err := watchdog.New(b.t.Context(), b.run, b.cfg)
			require.ErrorIs(t, err, watchdog.ErrInvalid)
			require.ErrorContains(t, err, "other-9")
			require.ErrorContains(t, err, "in the future")
			wd := b.resume()
			b.live(wd)
			require.Equal(t, b.clock.Now().Truncate(time.Microsecond), wd.StartedAt())
			b.pass(time.Hour)
			require.Equal(t, time.Hour, b.attach().Elapsed().Truncate(time.Second))
		})
	})
}

// TestOtherWriters protects that what others left in the events of a run is read.
func TestOtherWriters(t *testing.T) {
}
