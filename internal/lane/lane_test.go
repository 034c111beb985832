package lane_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/event"
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
	ended []ending
	tried []*machine.Entry
	told  int
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
	b := &bench{t: t, store: s, place: &journal.Place{Store: s.Journal(), Timeout: timeout}}
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
		r.node.Name = machine.Name{Run: fmt.Sprint("s-", len(b.runs)), StartedAt: event.Truncate(time.Now())}
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
	e = machine.NewEntry(nil, r.node.Event(event.Overrun, time.Now(), "", record.Overrun{
		SessionStartedAt: event.Stamp(r.node.StartedAt),
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
		Trip: &machine.Trip{Reason: "idle_exceeded", At: event.Truncate(time.Now())}, Began: time.Now(),
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

// kinds are those of the calls.
func kinds(calls []call) (all []string) {
	for _, c := range calls {
		all = append(all, c.Kind)
	}
	return all
}

// hang has the store not answer, whatever its context says, until the channel is closed: of some runs, or of any.
func (b *bench) hang(runs ...string) (open chan struct{}) {
	open = make(chan struct{})
	b.store.FailWith(func(_ context.Context, c call) error {
		if len(runs) == 0 || slices.ContainsFunc(runs, func(run string) bool { return slices.Contains(c.Runs, run) }) {
			<-open
		}
		return nil
	})
	return open
}

// refuse has the store refuse an entry of each run, which are tried one after the other.
func (b *bench) refuse(runs ...*run) {
	b.store.Refuse()
	for _, r := range runs {
		noteAll(r)
	}
	synctest.Wait()
	b.store.Calls()
}

// requireStored requires that nothing of the runs waits.
func requireStored(t *testing.T, runs ...*run) {
	t.Helper()
	for _, r := range runs {
		require.False(t, r.Waiting(), r.node.Run)
	}
}

// TestBatch protects what the runs of one store share, and that none of them pays for another.
func TestBatch(t *testing.T) {
	inBubble(t, "ends go before other entries", func(t *testing.T, b *bench) {
		all, open := b.begin(9), b.hang()
		noteAll(all[0])
		synctest.Wait()             // the one worker is at it
		for i, r := range all[1:] { // those that are found together have a lane of their own in a bubble
			if i < 4 {
				noteAll(r)
			} else {
				endAll(r)
			}
			synctest.Wait() // there is no other worker
		}
		b.store.FailWith(nil)
		close(open)
		synctest.Wait()
		calls := b.store.Calls()
		require.Equal(t, []string{"append", "transact", "append"}, kinds(calls))
		require.Equal(t, names(all[5:]...), calls[1].Runs)
		require.Equal(t, names(all[1:5]...), calls[2].Runs)
	})
	inBubble(t, "of one run, too, whose pauses go before its end", func(t *testing.T, b *bench) {
		r := b.begin(1)[0]
		entry, _ := r.note()
		pause, _ := r.note()
		pause.Opens = true
		endAll(r)
		require.False(t, r.WantAgain(), "somebody has to have it recorded already")
		lane.Enqueue(&r.Recorder)
		synctest.Wait()
		require.Equal(t, []string{"transact", "append"}, b.store.Kinds())
		require.True(t, entry.Stored())
		require.True(t, pause.Stored())
		require.Equal(t, "idle_exceeded", r.end(t).known.Stop.Reason)
		require.Len(t, r.tried, 2)
	})
	inBubble(t, "a pause that went with the end is not appended again", func(t *testing.T, b *bench) {
		r := b.begin(1)[0]
		pause, _ := r.note()
		pause.Opens = true
		r.decide()
		lane.Enqueue(&r.Recorder)
		synctest.Wait()
		require.Equal(t, []string{"transact"}, b.store.Kinds())
		require.True(t, pause.Stored())
		require.False(t, r.Waiting())
	})
	inBubble(t, "runs of one moment share an exchange, at most 512 of them", func(t *testing.T, b *bench) {
		all := b.begin(600)
		endAll(all...)
		synctest.Wait()
		calls := b.store.Calls()
		require.Equal(t, []string{"transact", "transact"}, kinds(calls))
		require.ElementsMatch(t, []int{512, 88}, []int{len(calls[0].Runs), len(calls[1].Runs)})
		for _, r := range all {
			require.NoError(t, r.end(t).err)
			require.Equal(t, []string{event.Cancel}, b.keeps(r))
			require.Equal(t, 1, r.told)
			require.Nil(t, r.Underway())
		}
	})
	for name, decide := range map[string]func(...*run){"ends": endAll, "entries": noteAll} {
		inBubble(t, "a batch of "+name+" that is refused is halved until the one at fault is alone", func(t *testing.T, b *bench) {
			all := b.begin(64)
			b.store.Refuse("s-37")
			decide(all...)
			synctest.Wait()
			calls := b.store.Calls()
			require.LessOrEqual(t, len(calls), 1+2*int(math.Log2(64))+3)
			for _, r := range all {
				require.Equal(t, r.node.Run == "s-37", r.Waiting(), r.node.Run)
				require.Equal(t, 1, r.told)
				require.Equal(t, !r.Waiting(), len(b.keeps(r)) == 1)
			}
			for _, c := range calls {
				if len(c.Runs) == 1 && c.Runs[0] == "s-37" {
					return
				}
			}
			t.Fatal("it was never asked for alone")
		})
	}
}

// TestHang protects the runs of a store that hangs, and those beside them.
func TestHang(t *testing.T) {
	inBubble(t, "a run with another conversation goes by itself", func(t *testing.T, b *bench) {
		all := b.begin(4)
		require.True(t, all[1].Enter())
		endAll(all...)
		synctest.Wait()
		for i, r := range all {
			require.Equal(t, i != 1, len(r.ended) == 1)
		}
		time.Sleep(2 * time.Second)
		all[1].Leave()
		synctest.Wait()
		require.NoError(t, all[1].end(t).err)
		require.Equal(t, 1, all[1].told)
		require.Nil(t, all[1].Underway())
		calls := b.store.Calls()
		require.Equal(t, []string{"s-0", "s-2", "s-3"}, calls[0].Runs)
		require.Equal(t, []string{"s-1"}, calls[1].Runs)
	})
	inBubble(t, "one whose conversation does not end is given up at its time-out", func(t *testing.T, b *bench) {
		all := b.begin(3)
		require.True(t, all[1].Enter())
		endAll(all...)
		time.Sleep(timeout)
		synctest.Wait()
		require.Zero(t, all[0].end(t).at)
		require.Equal(t, timeout, all[1].end(t).at)
		require.ErrorIs(t, all[1].end(t).err, context.DeadlineExceeded)
		require.Equal(t, "idle_exceeded", all[1].end(t).known.Stop.Reason, "the run ends nevertheless")
		all[1].Leave()
	})
	inBubble(t, "a store that hangs ends each run at its time-out, however many wait", func(t *testing.T, b *bench) {
		open := b.hang()
		all := b.begin(1500)
		endAll(all[:1200]...)
		time.Sleep(2 * time.Second)
		endAll(all[1200:]...)
		time.Sleep(timeout)
		synctest.Wait()
		for _, r := range all {
			require.Equal(t, timeout, r.end(t).at)
			require.ErrorContains(t, r.end(t).err, "append cancel event: event store did not answer in time (5s)")
		}
		close(open)
		time.Sleep(time.Minute)
		for _, r := range all {
			require.False(t, r.Waiting())
			require.Equal(t, []string{event.Cancel}, b.keeps(r))
		}
	})
	inBubble(t, "a store that refuses slowly ends no run later, however often the batch is halved", func(t *testing.T, b *bench) {
		b.store.FailWith(func(context.Context, call) error { time.Sleep(1500 * time.Millisecond); return errFull })
		all := b.begin(4)
		endAll(all...)
		time.Sleep(2 * timeout)
		synctest.Wait()
		for _, r := range all {
			require.LessOrEqual(t, r.end(t).at, timeout)
		}
		b.store.FailWith(nil)
		time.Sleep(time.Minute)
	})
	inBubble(t, "a batch has the time of the end that was decided first", func(t *testing.T, b *bench) {
		all, open := b.begin(2), b.hang()
		all[0].decide()
		time.Sleep(2 * time.Second)
		all[1].decide()
		lane.Enqueue(&all[0].Recorder, &all[1].Recorder)
		time.Sleep(timeout - 2*time.Second)
		synctest.Wait()
		require.Equal(t, timeout, all[0].end(t).at)
		require.Equal(t, timeout-2*time.Second, all[1].end(t).at)
		close(open)
	})
	inBubble(t, "and holds up no run of another store", func(t *testing.T, b *bench) {
		open := b.hang()
		other := newBench(t, &store{})
		endAll(b.begin(600)...)
		endAll(other.begin(600)...)
		synctest.Wait()
		for _, r := range other.runs {
			require.Zero(t, r.end(t).at)
		}
		close(open)
	})
	inBubble(t, "an event that nobody waited for has all of the time-out, from when the store is asked", func(t *testing.T, b *bench) {
		open := b.hang()
		defer close(open)
		r := b.begin(1)[0]
		entry, _ := r.note()
		lane.Enqueue(&r.Recorder)
		time.Sleep(timeout - 1)
		synctest.Wait()
		require.NotNil(t, r.Underway())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Nil(t, r.Underway())
		require.ErrorIs(t, entry.Err(), context.DeadlineExceeded)
	})
	inStore(t, "one that takes a run at a time is asked for many at once", &store{Steps: true}, func(t *testing.T, b *bench) {
		open := b.hang()
		all := b.begin(40)
		noteAll(all...)
		synctest.Wait()
		require.Len(t, b.store.Calls(), 32)
		close(open)
		synctest.Wait()
		requireStored(t, all...)
	})
}

// TestBeside protects what happens beside an exchange, and is none of it.
func TestBeside(t *testing.T) {
	inBubble(t, "what is decided while the store is asked is recorded next", func(t *testing.T, b *bench) {
		r, open := b.begin(1)[0], b.hang()
		noteAll(r)
		synctest.Wait()
		noteAll(r)
		noteAll(r)
		endAll(r)
		b.store.FailWith(nil)
		close(open)
		synctest.Wait()
		require.Equal(t, []string{"append", "transact", "append"}, b.store.Kinds())
		require.False(t, r.Waiting())
		require.Len(t, r.tried, 3)
		require.NoError(t, r.end(t).err)
		time.Sleep(time.Hour)
		noteAll(r)
		synctest.Wait()
		require.False(t, r.Waiting(), "later it has a time-out of its own")
	})
	inBubble(t, "what waits for that has a time-out since it was decided first", func(t *testing.T, b *bench) {
		r, open := b.begin(1)[0], b.hang()
		defer close(open)
		noteAll(r)
		for range 2 {
			time.Sleep(2 * time.Second)
			noteAll(r)
		}
		time.Sleep(3*time.Second - 1)
		synctest.Wait()
		require.NotNil(t, r.Underway())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Nil(t, r.Underway(), "seven seconds after the first, five after the second")
	})
	inBubble(t, "another process has ended the window", func(t *testing.T, b *bench) {
		all := b.begin(3)
		cancel := record.Cancel{Reason: "host_lost", SessionStartedAt: event.Stamp(all[1].node.StartedAt)}
		first := all[1].node.Event(event.Cancel, time.Now(), record.Once, cancel)
		require.NoError(t, b.store.Append(t.Context(), first))
		endAll(all...)
		synctest.Wait()
		require.Equal(t, "idle_exceeded", all[0].end(t).known.Stop.Reason)
		require.Equal(t, "host_lost", all[1].end(t).known.Stop.Reason)
		require.Len(t, b.keeps(all[1]), 1)
	})
	inBubble(t, "a host that blocks in its log holds up no run", func(t *testing.T, b *bench) {
		open, all := make(chan struct{}), b.begin(4)
		all[1].tell = func() { <-open }
		endAll(all...)
		endAll(b.begin(1)...)
		synctest.Wait()
		for _, r := range b.runs {
			require.Zero(t, r.end(t).at)
			require.Nil(t, r.Underway())
		}
		require.Zero(t, all[2].told, "the logs of a batch are told one after the other")
		require.Equal(t, 1, b.runs[4].told)
		close(open)
		synctest.Wait()
		require.Equal(t, 1, all[2].told)
	})
	inBubble(t, "a store finds in a context what all runs of an exchange agree on", func(t *testing.T, b *bench) {
		type key string
		seen := map[key]any{}
		b.store.FailWith(func(ctx context.Context, _ call) error {
			for _, k := range []key{"tenant", "trace", "slice", "none"} {
				seen[k] = ctx.Value(k)
			}
			return nil
		})
		all := b.begin(2)
		for i, r := range all {
			r.values = context.WithValue(r.values, key("tenant"), "t-1")
			r.values = context.WithValue(r.values, key("trace"), i)
			r.values = context.WithValue(r.values, key("slice"), []int{1})
		}
		endAll(all...)
		synctest.Wait()
		require.Equal(t, map[key]any{"tenant": "t-1", "trace": nil, "slice": nil, "none": nil}, seen)
		noteAll(all[1])
		synctest.Wait()
		require.Equal(t, 1, seen["trace"], "alone it has its own")
	})
	inBubble(t, "a run reads what it has recorded, once that is much", func(t *testing.T, b *bench) {
		all := b.begin(2)
		for range journal.Much - 1 {
			time.Sleep(time.Second)
			noteAll(all...)
			synctest.Wait()
		}
		require.NotContains(t, b.store.Kinds(), "select")
		time.Sleep(time.Second)
		noteAll(all[1])
		synctest.Wait()
		calls := b.store.Calls()
		require.Len(t, calls, 2)
		require.Equal(t, "select", calls[1].Kind)
		require.Equal(t, names(all[1]), calls[1].Runs)
	})
}
