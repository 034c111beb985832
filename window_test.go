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
