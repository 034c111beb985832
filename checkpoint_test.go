package watchdog_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
)

// A readingStore is a Memory that counts the events that are read from it.
type readingStore struct {
	watchdog.Memory
	read int
}

func (s *readingStore) Read(ctx context.Context, kind, id string) ([]watchdog.Event, error) {
	events, err := s.Memory.Read(ctx, kind, id)
	s.read += len(events)
	return events, err
}

func (s *readingStore) Select(ctx context.Context, of watchdog.Selection) ([]watchdog.Event, error) {
	events, err := s.Memory.Select(ctx, of)
	s.read += len(events)
	return events, err
}

func (s *readingStore) Transact(ctx context.Context, exchanges ...*watchdog.Exchange) error {
	for _, x := range exchanges {
		decide := x.Decide
		x.Decide = func(events []watchdog.Event) []watchdog.Event {
			s.read += len(events)
			return decide(events)
		}
	}
	return s.Memory.Transact(ctx, exchanges...)
}

// waits returns a run whose ladder ends in a wait, after so many stretches that are too long, of a minute each.
func waits(b *fixture, store watchdog.EventStore, stretches int) *watchdog.Watchdog {
	b.cfg.Store, b.cfg.PollOnly = store, true
	b.cfg.Budget = watchdog.Budget{
		WallClock: watchdog.NoLimit, Idle: minute, Ladders: watchdog.Ladders{Idle: many(watchdog.DirectiveWait, 1)},
	}
	wd := b.attach()
	for range stretches {
		b.clock.Add(minute + time.Microsecond)
		_, asked := wd.Poll()
		require.True(b.t, asked)
		wd.Progress()
		wd.Fired() // records that
	}
	return wd
}

// eventsOf counts the events of the run.
func eventsOf(t *testing.T, store *watchdog.Memory) (n int) {
	t.Helper()
	events, err := store.Read(context.Background(), watchdog.AggregateType, "s-1")
	require.NoError(t, err)
	return len(events)
}

// TestCheckpointReads protects that what an attach, a sync and a trip read does not grow with the run's window.
func TestCheckpointReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the mock clock sleeps
		read := func(stretches int) (attach, synced, trip int) {
			store := &readingStore{}
			b := newFixture(t)
			wd := waits(b, store, stretches)
			store.read = 0
			b.attach()
			attach, store.read = store.read, 0
			_, err := wd.Sync(context.Background())
			require.NoError(t, err)
			synced, store.read = store.read, 0
			_, err = wd.Cancel(watchdog.Cancellation{Reason: "host_gone"})
			require.NoError(t, err)
			t.Logf("%d events: New reads %d, Sync %d, a trip %d", eventsOf(t, &store.Memory), attach, synced, store.read)
			return attach, synced, store.read
		}
		attach, synced, trip := read(4)
		for _, stretches := range []int{40, 400, 2000} {
			a, s, c := read(stretches)
			require.LessOrEqual(t, a, 2*attach+1)
			require.LessOrEqual(t, s, 2*synced)
			require.LessOrEqual(t, c, 2*trip)
		}
	})
}

// TestCheckpointBesides protects that what other programs store is read, dated up to an hour ago, and an end whatever
// its date.
func TestCheckpointBesides(t *testing.T) {
	bubble := func(name string, test func(t *testing.T)) { // the mock clock sleeps
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
	bubble("a pause of a process whose store was away for longer than that", func(t *testing.T) {
		b := newFixture(t)
		store := &tripStore{}
		b.cfg.Store = store
		cut := b.attach()
		waits(b, &store.Memory, 1)
		beside := waits(b, &store.Memory, 1)
		store.leave(true)
		h := openHold(t, cut, "approval", watchdog.HoldLimit{Cap: 10 * time.Hour, PausesWallClock: true})
		b.pass(20 * time.Minute)
		h.Close()
		for range 200 {
			b.pass(minute + time.Microsecond)
			beside.Poll()
			beside.Progress()
			beside.Fired() // writes checkpoints
		}
		store.leave(false)
		b.pass(time.Minute)
		require.Equal(t, 1, countEvents(t, store, watchdog.EventRelease))
		again := b.attach()
		require.Equal(t, 20*time.Minute, handle.Of(again.Context()).State().Paused)
		require.NoError(t, cut.Close())
	})
	bubble("an unreadable event is not passed over with what came before a checkpoint", func(t *testing.T) {
		b, store := newFixture(t), &readingStore{}
		wd := waits(b, store, 300)
		require.NoError(t, store.Append(context.Background(), watchdog.Event{
			ID: "damaged", AggregateType: watchdog.AggregateType, AggregateID: "s-1", Type: watchdog.EventExtend,
			Timestamp: b.clock.Now(), Payload: json.RawMessage(`{"session_started_at":7}`),
		}))
		for range 40 {
			b.clock.Add(minute + time.Microsecond)
			wd.Poll()
			wd.Progress()
			wd.Fired()
		}
		_, err := watchdog.New(context.Background(), b.run, b.cfg)
		require.ErrorIs(t, err, watchdog.ErrUnreadableEvent)
		_, err = wd.Sync(context.Background())
		require.ErrorIs(t, err, watchdog.ErrUnreadableEvent)
	})
}

// An awaySelect is a Memory that selects nothing while err is set.
type awaySelect struct {
	watchdog.Memory
	err error
}

func (s *awaySelect) Select(ctx context.Context, of watchdog.Selection) ([]watchdog.Event, error) {
	if s.err != nil {
		return nil, s.err
	}
	return s.Memory.Select(ctx, of)
}

// TestCheckpointUnread protects that a run which asks for a checkpoint, because it is old, fails as a young one does.
func TestCheckpointUnread(t *testing.T) {
	for _, age := range []time.Duration{minute, 3 * time.Hour} {
		inFixture(t, func(b *fixture) {
			store := &awaySelect{}
			b.cfg.Store = store
			wd := b.attach()
			b.pass(age)
			store.err = errDiskFull
			_, err := wd.Sync(b.t.Context())
			require.EqualError(t, err, "sync run "+b.run.ID+" with its events: read events: disk full")
		})
	}
}
