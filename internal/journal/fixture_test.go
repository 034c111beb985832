package journal_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

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
			withStore(t, &store{Steps: steps}, test)
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
	for _, e := range b.store.All(b.name.Run) {
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
