package journal_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/journal"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/memory"
	"github.com/seed62658d38/watchdog/internal/record"
)

var errFull = errors.New("disk full")

// A store keeps events in memory, and before that does what the test has it do.
type store struct {
	kept  memory.Events
	steps bool // it cannot transact
	few   bool // it says that runs have next to no events

	mu    sync.Mutex
	fault func(ctx context.Context, call string, events []fold.Event) error
	asked []string
}

// ask notes a call and has the fault happen, which learns what is to be kept. One of a transaction is called "keep".
func (s *store) ask(ctx context.Context, call string, events []fold.Event) error {
	s.mu.Lock()
	s.asked = append(s.asked, call)
	fault := s.fault
	s.mu.Unlock()
	if fault == nil {
		return nil
	}
	return fault(ctx, call, events)
}

func (s *store) failWith(fault func(ctx context.Context, call string, events []fold.Event) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// calls are those that were made since it was called last.
func (s *store) calls() (asked []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked, s.asked = s.asked, nil
	return asked
}

func (s *store) Transacts() bool { return !s.steps }

func (s *store) Key() any { return s }

func (s *store) Few(string) bool { return s.few }

func (s *store) Append(ctx context.Context, events ...fold.Event) error {
	if err := s.ask(ctx, "append", events); err != nil {
		return err
	}
	t, err := s.kept.Begin(context.WithoutCancel(ctx), len(events)) // also if the caller does not wait any more
	if err != nil {
		return err
	}
	defer t.End()
	for i := range events {
		t.Keep(&events[i])
	}
	t.Commit()
	return nil
}

func (s *store) Read(ctx context.Context, runID string) ([]fold.Event, error) {
	if err := s.ask(ctx, "read", nil); err != nil {
		return nil, err
	}
	return s.all(runID), nil
}

func (s *store) all(runID string) (all []fold.Event) {
	t, _ := s.kept.Begin(context.Background(), 0)
	defer t.End()
	return copies(t.All(record.AggregateType, runID))
}

func (s *store) Select(ctx context.Context, by fold.Selection) ([]fold.Event, error) {
	if err := s.ask(ctx, "select", nil); err != nil {
		return nil, err
	}
	t, _ := s.kept.Begin(context.WithoutCancel(ctx), 0)
	defer t.End()
	return copies(t.Select(nil, by)), nil
}

func (s *store) Transact(ctx context.Context, exchanges ...*journal.Exchange) error {
	if err := s.ask(ctx, "transact", nil); err != nil {
		return err
	}
	t, _ := s.kept.Begin(context.WithoutCancel(ctx), 0)
	defer t.End()
	kept := make([][]fold.Event, len(exchanges))
	for i, x := range exchanges {
		events := x.Decide(copies(t.Select(nil, x.Selection)))
		if err := s.ask(ctx, "keep", events); err != nil {
			return err
		}
		for j := range events {
			kept[i] = append(kept[i], *t.Keep(&events[j]))
		}
	}
	for i, x := range exchanges {
		x.Kept = kept[i]
	}
	t.Commit()
	return nil
}

func copies(events []*fold.Event) (all []fold.Event) {
	for _, e := range events {
		all = append(all, *e)
	}
	return all
}

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
	place := &journal.Place{Store: s, Timeout: timeout}
	place.KeepCheckpoints()
	for _, one := range change {
		one(place)
	}
	b := &bench{t: t, store: s, place: place}
	b.name = machine.Name{Run: "s-1", StartedAt: record.Truncate(time.Now())}
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
			withStore(t, &store{steps: steps}, test)
		})
	}
}

func withStore(t *testing.T, s *store, test func(t *testing.T, b *bench)) {
	synctest.Test(t, func(t *testing.T) { test(t, newBench(t, s)) })
}

func (b *bench) stamp() record.Stamp { return record.Stamp(b.name.StartedAt) }

func (b *bench) event(kind string, payload any) fold.Event {
	return b.name.Event(kind, time.Now(), "", payload)
}

func (b *bench) extend(d time.Duration) fold.Event {
	return b.event(record.EventExtend, record.Extend{
		SessionStartedAt: b.stamp(), ExtensionSeconds: record.FloatSeconds(d),
	})
}

func (b *bench) cancel(reason string) (fold.Event, *record.Cancel) {
	now := time.Now()
	p := &record.Cancel{Reason: reason, SessionStartedAt: b.stamp(), FiredAt: record.Stamp(record.Truncate(now))}
	return b.name.Event(record.EventCancel, now, record.Once, p), p
}

// fill appends so many events, a second apart.
func (b *bench) fill(events int) {
	for range events {
		time.Sleep(time.Second)
		require.NoError(b.t, b.Append(b.t.Context(), b.extend(time.Second)))
	}
}

// always decides on the events, whatever is known.
func always(events ...fold.Event) journal.Decide {
	return func(*fold.Window) []fold.Event { return events }
}

// keeps are the IDs of the events that the store has of a kind, of all if none is named.
func (b *bench) keeps(kinds ...string) (ids []string) {
	for _, e := range b.store.all(b.name.Run) {
		if len(kinds) == 0 || slices.Contains(kinds, e.Type) {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

func ids(events ...fold.Event) (all []string) {
	for _, e := range events {
		all = append(all, e.ID)
	}
	return all
}
