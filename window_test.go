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

// TestResume has two processes that resume at once share one window.
func TestResume(t *testing.T) {
	inFixture(t, func(b *fixture) {
		b.attach()
		b.pass(5 * time.Hour)
		b.cfg.Store = beforeAppend(b.store, func() {
			b.pass(time.Second)
			b.resume()
			b.pass(time.Second)
		})
		wd := b.resume()
		require.Equal(b.t, noon.Add(5*time.Hour+time.Second), wd.StartedAt())
		require.Len(b.t, b.events(watchdog.EventResume), 1)
	})
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
	inFixture(t, func(b *fixture) {
		b.put(7, watchdog.EventCancel, `{"session_started_at":"yesterday"}`)
		_, err := watchdog.New(b.t.Context(), b.run, b.cfg)
		require.ErrorIs(t, err, watchdog.ErrUnreadableEvent)
		require.ErrorContains(t, err, "other-7")
		require.ErrorContains(t, err, "correct or delete that event")
	})
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
			b.cfg.Store = beforeAppend(b.store, func() { b.store.set(func(s *flakyStore) { s.failGet = errDiskFull }) })
			_, err := watchdog.Resume(context.Background(), b.run, b.cfg)
			require.ErrorIs(t, err, errDiskFull)
			require.ErrorContains(t, err, "the run is resumed")
			require.Error(t, k.kept[0].Context().Err())
		})
	})
	t.Run("a run that another process resumes meanwhile goes on in that window, and is kept in it", func(t *testing.T) {
		inCancelled(t, func(b *fixture, k *fakeKeeper) {
			cfg, other := b.cfg, (*watchdog.Watchdog)(nil)
			b.cfg.Store = beforeAppend(b.store, func() {
				b.clock.step(-minute)
				cfg.Keeper = nil
				other, _ = watchdog.Resume(context.Background(), b.run, cfg)
				b.clock.step(minute)
			})
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
		return openLayer(b.t, wd, "step", watchdog.Budget{WallClock: 500 * time.Millisecond})
	}
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
		other := attachTo(context.Background(), b.t, session, b.cfg)
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

// TestWindowChain protects that what a resume opened counts, and not what has the latest start: a resume dated ahead is
// an error that names it, and another resume opens a window after it.
func TestWindowChain(t *testing.T) {
	inFixture(t, func(b *fixture) {
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
