package lane_test

import (
	"context"
	"errors"
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
	"github.com/seed62658d38/watchdog/internal/lane"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/memory"
	"github.com/seed62658d38/watchdog/internal/record"
)

var errFull = errors.New("disk full")

const timeout = 5 * time.Second

// A call is one of the store.
type call struct {
	kind string
	runs []string
	at   time.Duration // since the store was made
}

// A store keeps events in memory, and before that does what the test has it do.
type store struct {
	kept  memory.Events
	steps bool // it cannot transact
	began time.Time

	mu    sync.Mutex
	fault func(ctx context.Context, c call) error
	asked []call
}

func (s *store) ask(ctx context.Context, kind string, runs ...string) error {
	s.mu.Lock()
	c := call{kind, slices.Compact(runs), time.Since(s.began)}
	s.asked = append(s.asked, c)
	fault := s.fault
	s.mu.Unlock()
	if fault == nil {
		return nil
	}
	return fault(ctx, c)
}

func (s *store) failWith(fault func(ctx context.Context, c call) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// refuse has the store refuse what is about one of the runs, everything if none is named.
func (s *store) refuse(runs ...string) {
	s.failWith(func(_ context.Context, c call) error {
		if len(runs) == 0 || slices.ContainsFunc(runs, func(run string) bool { return slices.Contains(c.runs, run) }) {
			return errFull
		}
		return nil
	})
}

// calls are those that were made since it was called last.
func (s *store) calls() (asked []call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked, s.asked = s.asked, nil
	return asked
}

func (s *store) Transacts() bool { return !s.steps }

func (s *store) Key() any { return s }

func (s *store) Few(string) bool { return false }

func (s *store) Append(ctx context.Context, events ...fold.Event) error {
	var runs []string
	for _, e := range events {
		runs = append(runs, e.AggregateID)
	}
	if err := s.ask(ctx, "append", runs...); err != nil {
		return err
	}
	t, _ := s.kept.Begin(context.WithoutCancel(ctx), 0)
	defer t.End()
	for i := range events {
		t.Keep(&events[i])
	}
	t.Commit()
	return nil
}

func (s *store) Read(ctx context.Context, runID string) ([]fold.Event, error) {
	if err := s.ask(ctx, "read", runID); err != nil {
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
	if err := s.ask(ctx, "select", by.AggregateID); err != nil {
		return nil, err
	}
	t, _ := s.kept.Begin(context.WithoutCancel(ctx), 0)
	defer t.End()
	return copies(t.Select(nil, by)), nil
}

func (s *store) Transact(ctx context.Context, exchanges ...*journal.Exchange) error {
	var runs []string
	for _, x := range exchanges {
		runs = append(runs, x.AggregateID)
	}
	if err := s.ask(ctx, "transact", runs...); err != nil {
		return err
	}
	t, _ := s.kept.Begin(context.WithoutCancel(ctx), 0)
	defer t.End()
	for _, x := range exchanges {
		x.Kept = nil
		for _, e := range x.Decide(copies(t.Select(nil, x.Selection))) {
			x.Kept = append(x.Kept, *t.Keep(&e))
		}
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
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, newBench(t, &store{})) })
	})
}

func newBench(t *testing.T, s *store) *bench {
	s.began = time.Now()
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
	for _, e := range b.store.all(r.node.Run) {
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
