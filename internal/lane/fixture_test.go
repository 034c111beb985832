package lane_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/journal"
	"github.com/seed62658d38/watchdog/internal/journal/journaltest"
	"github.com/seed62658d38/watchdog/internal/lane"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/record"
)

var errFull = journaltest.ErrFull

const timeout = 5 * time.Second

type (
	store = journaltest.Store
	call  = journaltest.Call
)

// A run is what a driver is to the lanes.
type run struct {
	lane.Recorder
	sync.Mutex
	node   machine.Node
	place  *journal.Place
	values context.Context
	closed atomic.Bool
	tell   func() // what the host does when it is told

	// The lock guards the rest.
	ended   []ending
	tried   []*machine.Entry
	told    int
	owes    bool
	covered int
}

// An ending is how the run has ended.
type ending struct {
	known fold.Window
	err   error
	at    time.Duration
}

func (r *run) Machine() *machine.Node { return &r.node }

func (r *run) Values() context.Context { return r.values }

func (r *run) Closed() bool { return r.closed.Load() }

func (r *run) Conclude(e *lane.Ending, known *fold.Window, err error) {
	r.Lock()
	defer r.Unlock()
	r.ended = append(r.ended, ending{*known, err, time.Since(e.Began)})
	r.End(nil)
	close(e.Done)
}

func (r *run) Tried(entries []*machine.Entry) { r.tried = append(r.tried, entries...) }

func (r *run) Tell(here bool) (log func()) {
	told := func() {
		r.Lock()
		r.told++
		r.Unlock()
		if r.tell != nil {
			r.tell()
		}
	}
	if here {
		told()
		return nil
	}
	return told
}

func (r *run) Owes() bool {
	r.Lock()
	defer r.Unlock()
	return r.owes
}

func (r *run) Cover() error {
	r.Lock()
	defer r.Unlock()
	r.covered++
	r.owes = false
	return nil
}

// A bench is a store and the runs that are kept in it.
type bench struct {
	t     *testing.T
	store *store
	place *journal.Place
	runs  []*run
}

// inBubble runs the test with a store that can transact.
func inBubble(t *testing.T, name string, test func(t *testing.T, b *bench)) {
	inStore(t, name, &store{}, test)
}

// inStore runs the test with a store.
func inStore(t *testing.T, name string, s *store, test func(t *testing.T, b *bench)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, newBench(t, s)) })
	})
}

func newBench(t *testing.T, s *store) *bench {
	s.Began = time.Now()
	b := &bench{t: t, store: s, place: &journal.Place{Store: s, Timeout: timeout}}
	b.place.KeepCheckpoints()
	t.Cleanup(func() { // no lane is left
		for _, r := range b.runs {
			r.close()
		}
	})
	return b
}

// begin begins so many runs: s-0, s-1 and so on.
func (b *bench) begin(runs int) []*run {
	for range runs {
		r := &run{place: b.place, values: context.Background()}
		r.node.Name = machine.Name{Run: fmt.Sprint("s-", len(b.runs)), StartedAt: record.Truncate(time.Now())}
		r.Open(b.place, r)
		b.runs = append(b.runs, r)
	}
	return b.runs[len(b.runs)-runs:]
}

func (r *run) close() {
	r.closed.Store(true)
	r.Close()
}

// note decides on an entry of the run, and reports whether it is to be recorded.
func (r *run) note() (e *machine.Entry, begin bool) {
	r.Lock()
	defer r.Unlock()
	e = machine.NewEntry(nil, r.node.Event(record.EventOverrun, time.Now(), "", record.Overrun{
		SessionStartedAt: record.Stamp(r.node.StartedAt),
	}))
	r.node.Pending.Put(e)
	r.Add(e)
	return e, r.Want()
}

// decide decides on the end of the run, and reports whether it is to be recorded.
func (r *run) decide() (e *lane.Ending, begin bool) {
	r.Lock()
	defer r.Unlock()
	e = &lane.Ending{
		Trip: &machine.Trip{Reason: "idle_exceeded", At: record.Truncate(time.Now())}, Began: time.Now(),
		Done: make(chan struct{}),
	}
	e.Trip.On.Limit = "idle"
	r.End(e)
	return e, r.Want()
}

// noteAll has entries of the runs recorded together, endAll their ends. They return at once.
func noteAll(runs ...*run) {
	together(runs, func(r *run) (begin bool) { _, begin = r.note(); return begin })
}

func endAll(runs ...*run) {
	together(runs, func(r *run) (begin bool) { _, begin = r.decide(); return begin })
}

func together(runs []*run, decide func(r *run) (begin bool)) {
	var due []*lane.Recorder
	for _, r := range runs {
		if decide(r) {
			due = append(due, &r.Recorder)
		}
	}
	switch {
	case len(due) == 0:
	case runs[0].place.Inline:
		lane.CarryAll(due, time.Now())
	default:
		lane.Enqueue(due...)
	}
}

// end is how the run has ended, once.
func (r *run) end(t *testing.T) ending {
	r.Lock()
	defer r.Unlock()
	require.Len(t, r.ended, 1, r.node.Run)
	return r.ended[0]
}

// keeps are the kinds of the events that the store has of a run, sorted.
func (b *bench) keeps(r *run) (kinds []string) {
	for _, e := range b.store.All(r.node.Run) {
		kinds = append(kinds, e.Type)
	}
	slices.Sort(kinds)
	return kinds
}

// names are those of the runs.
func names(runs ...*run) (all []string) {
	for _, r := range runs {
		all = append(all, r.node.Run)
	}
	return all
}
