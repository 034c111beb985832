package feed_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/feed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// most is how many items wait for a reader.
const most = 16

// A model is what a feed has to be, by the plainest means: what was given to all, in order, and how far each reader is.
type model struct {
	line  []int
	tried map[int]bool
	given []int
	ended bool
}

func (m *model) give() {
	for len(m.line) > 0 && (m.ended || m.tried[m.line[0]]) {
		m.given, m.line = append(m.given, m.line[0]), m.line[1:]
	}
}

// A cursor is how far one reader is in what was given.
type cursor struct{ next int }

// take is the next item of the reader, and how many were dropped before it.
func (c *cursor) take(given []int) (item, dropped int, ok bool) {
	if c.next == len(given) {
		return 0, 0, false
	}
	from := max(c.next, len(given)-most)
	dropped, c.next = from-c.next, from+1
	return given[from], dropped, true
}

// A got is what a reader was given.
type got struct{ item, dropped int }

// A subscriber is one of a feed, beside the cursor that says what it has to get.
type subscriber struct {
	cursor
	got         []got
	unsubscribe func()
}

// A history is a feed and its readers beside the model.
type history struct {
	t           *testing.T
	random      *rand.Rand
	feed        feed.Feed[int, int]
	model       model
	polls       cursor
	subscribers []*subscriber
	last        int // item
}

// TestFeed plays random histories and compares what every reader gets with the model.
func TestFeed(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a seed that gives the same history again
			h := &history{t: t, random: random, model: model{tried: map[int]bool{}}}
			for range 200 {
				h.step()
				h.model.give()
			}
		})
	}
}

func (h *history) step() {
	switch n := h.random.IntN(100); {
	case n < 40:
		h.putInLine()
	case n < 75:
		h.try()
	case n < 85:
		item, dropped, ok := h.feed.Poll()
		want, lost, there := h.polls.take(h.model.given)
		require.Equal(h.t, there, ok)
		require.Equal(h.t, got{want, lost}, got{item, dropped})
	case n < 90:
		s := &subscriber{cursor: cursor{len(h.model.given)}}
		s.unsubscribe = h.feed.Subscribe(func(item, dropped int) { s.got = append(s.got, got{item, dropped}) })
		h.subscribers = append(h.subscribers, s)
	case n < 92 && len(h.subscribers) > 0:
		i := h.random.IntN(len(h.subscribers))
		h.subscribers[i].unsubscribe()
		h.subscribers = slices.Delete(h.subscribers, i, i+1)
	case n < 99:
		h.feed.Deliver(true)
		for _, s := range h.subscribers {
			s.compare(h.t, h.model.given)
		}
	default:
		h.end()
	}
}

func (h *history) putInLine() {
	if h.model.ended {
		return
	}
	h.last++
	h.feed.Line(h.last, h.last)
	h.model.line = append(h.model.line, h.last)
}

func (h *history) try() {
	if len(h.model.line) == 0 {
		return
	}
	key := h.model.line[h.random.IntN(len(h.model.line))]
	h.feed.Tried(key)
	h.model.tried[key] = true
}

func (h *history) end() {
	require.Equal(h.t, !h.model.ended, h.feed.End(-1))
	if h.model.ended {
		return
	}
	h.model.ended = true
	h.model.give()
	h.model.given = append(h.model.given, -1)
}

// compare compares what the subscriber was given since it was compared last.
func (s *subscriber) compare(t *testing.T, given []int) {
	t.Helper()
	for _, one := range s.got {
		item, dropped, _ := s.take(given)
		require.Equal(t, got{item, dropped}, one)
	}
	require.Len(t, given, s.next, "it has all that was given")
	s.got = nil
}

func TestLined(t *testing.T) {
	f := &feed.Feed[string, int]{}
	f.Line("a", 1)
	f.Line("b", 2)
	item, ok := f.Lined("b")
	require.True(t, ok)
	require.Equal(t, 2, item)
	f.Tried("a")
	_, ok = f.Lined("a")
	require.False(t, ok)
}

// bubble runs a subtest with fake time.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// TestSubscribers protects readers from each other: one that blocks or ends its goroutine holds up only itself.
func TestSubscribers(t *testing.T) {
	give := func(f *feed.Feed[int, int], items ...int) {
		for _, item := range items {
			f.Line(item, item)
			f.Tried(item)
		}
		f.Deliver(false)
		synctest.Wait()
	}
	bubble(t, "one that blocks gets what it missed, but for the oldest", func(t *testing.T) {
		f := &feed.Feed[int, int]{}
		var slow, quick []got
		hang := make(chan struct{})
		f.Subscribe(func(item, dropped int) { <-hang; slow = append(slow, got{item, dropped}) })
		f.Subscribe(func(item, dropped int) { quick = append(quick, got{item, dropped}) })
		for item := 1; item <= most+3; item++ {
			give(f, item)
		}
		require.Len(t, quick, most+3)
		close(hang)
		synctest.Wait()
		require.Len(t, slow, most+1)
		require.Equal(t, []got{{1, 0}, {4, 2}, {5, 0}}, slow[:3])
	})
	bubble(t, "one that ends its goroutine gets the others all the same", func(t *testing.T) {
		f := &feed.Feed[int, int]{}
		var items []int
		f.Subscribe(func(item, _ int) { items = append(items, item); runtime.Goexit() })
		give(f, 1, 2, 3)
		require.Equal(t, []int{1, 2, 3}, items)
	})
	bubble(t, "one that ends the goroutine of who delivers here does not keep the others from theirs", func(t *testing.T) {
		f := &feed.Feed[int, int]{}
		var told [2][]int
		for i := range told {
			f.Subscribe(func(item, _ int) { told[i] = append(told[i], item); runtime.Goexit() })
		}
		f.Line(1, 1)
		f.Line(2, 2)
		f.Tried(1)
		f.Tried(2)
		go f.Deliver(true)
		synctest.Wait()
		require.Equal(t, [2][]int{{1, 2}, {1, 2}}, told)
	})
	bubble(t, "one that unsubscribes in a call gets nothing more", func(t *testing.T) {
		f := &feed.Feed[int, int]{}
		var items []int
		var unsubscribe func()
		unsubscribe = f.Subscribe(func(item, _ int) { items = append(items, item); unsubscribe() })
		give(f, 1, 2)
		give(f, 3)
		require.Equal(t, []int{1}, items)
	})
	t.Run("one that delivers again in a call does not wait for itself", func(t *testing.T) {
		f := &feed.Feed[int, int]{}
		var items []int
		f.Subscribe(func(item, _ int) {
			if items = append(items, item); item == 1 {
				f.End(2)
			}
			f.Deliver(true)
		})
		f.Line(1, 1)
		f.Tried(1)
		f.Deliver(true)
		require.Equal(t, []int{1, 2}, items)
	})
}

// TestOrder protects a subscriber from being called twice at once, and out of order, by several who deliver.
func TestOrder(t *testing.T) {
	bubble(t, "each item comes in its turn", func(t *testing.T) {
		f := &feed.Feed[int, int]{}
		var items []int
		calling, lost := false, 0
		f.Subscribe(func(item, dropped int) {
			require.False(t, calling)
			calling = true
			runtime.Gosched()
			items, lost = append(items, item), lost+dropped
			calling = false
		})
		for item := range 1000 {
			f.Line(item, item)
			f.Tried(item)
			if item%10 == 0 {
				go f.Deliver(true)
			}
		}
		synctest.Wait()
		f.Deliver(true)
		require.Equal(t, 1000, len(items)+lost)
		require.True(t, slices.IsSorted(items))
	})
}

// TestNil protects that a run without readers needs no feed.
func TestNil(t *testing.T) {
	var f *feed.Feed[int, int]
	f.Deliver(true)
	_, _, ok := f.Poll()
	require.False(t, ok)
}
