package watchdog_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/record"
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

func extendedBy(wd *watchdog.Watchdog) time.Duration { return handle.Of(wd.Context()).State().Extended }

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
	start := func(t *testing.T) (*fixture, *readingStore, *watchdog.Watchdog) {
		t.Helper()
		b, store := newFixture(t), &readingStore{}
		wd := waits(b, store, 300)
		b.cfg.Budget.WallClock = 100 * time.Hour
		return b, store, wd
	}
	put := func(t *testing.T, b *fixture, store *readingStore, id, kind string, ago time.Duration, payload any) {
		t.Helper()
		require.NoError(t, store.Append(context.Background(), watchdog.Event{
			ID: id, AggregateType: watchdog.AggregateType, AggregateID: "s-1", Type: kind, Timestamp: b.clock.Now().Add(-ago),
			Payload: record.JSON(payload),
		}))
	}
	extend := record.Extend{SessionStartedAt: record.Stamp(noon), ExtensionSeconds: 3600}
	bubble("what another process has written down is not read by one that has not looked for long", func(t *testing.T) {
		b, store := newFixture(t), &readingStore{}
		b.cfg.Store, b.cfg.PollOnly, b.cfg.Budget = store, true, watchdog.Budget{WallClock: 1000 * time.Hour}
		idle := b.attach()
		waits(b, store, 300)
		put(t, b, store, "extend", watchdog.EventExtend, 0, extend)
		store.read = 0
		_, err := idle.Sync(context.Background())
		require.NoError(t, err)
		require.Equal(t, time.Hour, extendedBy(idle))
		require.Less(t, store.read, 40)
	})
	bubble("a pause of a process whose store was away for longer than that", func(t *testing.T) {
		b := newFixture(t)
		store := &triedStore{now: b.clock.Now}
		b.cfg.Store = store
		cut := b.attach()
		waits(b, &store.Memory, 1)
		beside := waits(b, &store.Memory, 1)
		store.away()
		h, err := cut.Hold(context.Background(), "approval", watchdog.HoldLimit{Cap: 10 * time.Hour, PausesWallClock: true})
		require.NoError(t, err)
		b.pass(20 * time.Minute)
		h.Close()
		for range 200 {
			b.pass(minute + time.Microsecond)
			beside.Poll()
			beside.Progress()
			beside.Fired() // writes checkpoints
		}
		store.back()
		b.pass(time.Minute)
		require.Equal(t, 1, countEvents(t, store, watchdog.EventRelease))
		again := b.attach()
		require.Equal(t, 20*time.Minute, handle.Of(again.Context()).State().Paused)
		require.NoError(t, cut.Close())
	})
	bubble("a checkpoint that cannot be read is passed over", func(t *testing.T) {
		b, store, _ := start(t)
		put(t, b, store, "extend", watchdog.EventExtend, 0, extend)
		b.attach()
		for n, payload := range []string{
			`{}`, `{"format":2,"folded":{}}`, `{"format":1,"folded":[]}`, `{"format":"one"}`,
			`{"format":1,"parent":"other","folded":{}}`, `{"format":1,"folded":{},"known":7}`,
			`{"format":1,"from":"2026-05-01T11:00:00Z","since":"2026-05-01T10:00:00Z","until":"2026-05-01T12:00:00Z","folded":{}}`,
		} {
			b.clock.Add(time.Second)
			put(t, b, store, fmt.Sprint("damaged-", n), watchdog.EventCheckpoint, 0, json.RawMessage(payload))
			store.read = 0
			require.Equal(t, time.Hour, extendedBy(b.attach()), payload)
			require.Less(t, store.read, 80, "an older one is found")
		}
		for n := range 9 {
			b.clock.Add(time.Second)
			put(t, b, store, fmt.Sprint("newer-", n), watchdog.EventCheckpoint, 0, json.RawMessage(`{"format":3}`))
		}
		require.Equal(t, time.Hour, extendedBy(b.attach()), "the run is read whole")
	})
	bubble("a window that was cancelled is not read whole, and a resumed one goes on from its own", func(t *testing.T) {
		b, store, wd := start(t)
		_, err := wd.Cancel(watchdog.Cancellation{Reason: "host_gone"})
		require.NoError(t, err)
		store.read = 0
		_, fired := b.attach().Fired()
		require.True(t, fired)
		require.Less(t, store.read, 40)
		b.clock.Add(time.Minute)
		wd = b.resume()
		require.NoError(t, wd.Extend(time.Minute))
		for range 300 {
			b.clock.Add(minute + time.Microsecond)
			wd.Poll()
			wd.Progress()
			wd.Fired()
		}
		for _, host := range []time.Time{noon, wd.StartedAt()} {
			b.run.StartedAt, store.read = host, 0
			again := b.attach()
			require.Equal(t, wd.StartedAt(), again.StartedAt())
			require.Equal(t, time.Minute, extendedBy(again))
			require.Less(t, store.read, 40)
		}
	})
	bubble("an unreadable event is not passed over with what came before a checkpoint", func(t *testing.T) {
		b, store, wd := start(t)
		put(t, b, store, "damaged", watchdog.EventExtend, 0, json.RawMessage(`{"session_started_at":7}`))
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
