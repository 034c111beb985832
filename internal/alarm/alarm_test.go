package alarm_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/alarm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type owner struct {
	alarm.Item[owner]
	name int
}

func newOwner(name int) *owner {
	o := &owner{name: name}
	o.Owner = o
	return o
}

// A recorder records which items fired and when.
type recorder struct {
	mu    sync.Mutex
	began time.Time
	fired []firing
	slept time.Duration // of the machine
}

type firing struct {
	name  int
	after time.Duration
}

func (b *recorder) notify(due []*owner) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range due {
		b.fired = append(b.fired, firing{o.name, time.Since(b.began)})
	}
}

// wait lets time pass and returns what has fired by then.
func (b *recorder) wait(d time.Duration) []firing {
	time.Sleep(d)
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.fired)
}

// sleep makes the machine sleep.
func (b *recorder) sleep(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.slept += d
}

func (b *recorder) sleptSoFar() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.slept
}

func inBubble(t *testing.T, test func(t *testing.T, q *alarm.Queue[owner], b *recorder)) {
	synctest.Test(t, func(t *testing.T) {
		b := &recorder{began: time.Now()}
		test(t, alarm.New(b.notify, b.sleptSoFar), b)
	})
}

func TestQueue(t *testing.T) {
	t.Run("items fire when they are due, earliest first", func(t *testing.T) {
		inBubble(t, func(t *testing.T, q *alarm.Queue[owner], b *recorder) {
			for name, d := range []time.Duration{3 * time.Hour, time.Second, time.Hour, 0} {
				q.Within(&newOwner(name).Item, d)
			}
			require.Equal(t, []firing{{3, 0}, {1, time.Second}, {2, time.Hour}, {0, 3 * time.Hour}}, b.wait(4*time.Hour))
		})
	})
	t.Run("within a time an item fires then at the latest, and keeps an earlier deadline", func(t *testing.T) {
		inBubble(t, func(t *testing.T, q *alarm.Queue[owner], b *recorder) {
			fresh, sooner, later := newOwner(1), newOwner(2), newOwner(3)
			q.Within(&fresh.Item, time.Second)
			q.Within(&sooner.Item, time.Hour)
			q.Within(&sooner.Item, time.Minute)
			q.Within(&later.Item, 2*time.Minute)
			q.Within(&later.Item, time.Hour)
			require.Equal(t, []firing{{1, time.Second}, {2, time.Minute}, {3, 2 * time.Minute}}, b.wait(2*time.Hour))
			q.Within(&later.Item, time.Second)
			require.Len(t, b.wait(time.Hour), 4, "one that has fired has no deadline")
		})
	})
	t.Run("a removed item does not fire, and the timer of an empty queue is not set again", func(t *testing.T) {
		inBubble(t, func(t *testing.T, q *alarm.Queue[owner], b *recorder) {
			one, other := newOwner(1), newOwner(2)
			q.Within(&one.Item, time.Second)
			q.Within(&other.Item, 2*time.Second)
			q.Remove(&one.Item)
			q.Remove(&one.Item)
			q.Remove(&other.Item)
			require.Empty(t, b.wait(time.Hour))
			q.Within(&one.Item, time.Second)
			require.Len(t, b.wait(time.Hour), 1)
		})
	})
	t.Run("after the machine slept all items fire within a minute, once", func(t *testing.T) {
		inBubble(t, func(t *testing.T, q *alarm.Queue[owner], b *recorder) {
			one, other := newOwner(1), newOwner(2)
			q.Within(&one.Item, time.Hour)
			q.Within(&other.Item, 2*time.Hour)
			require.Empty(t, b.wait(90*time.Second))
			b.sleep(8 * time.Hour)
			require.Equal(t, []firing{{1, 2 * time.Minute}, {2, 2 * time.Minute}}, b.wait(time.Hour))
		})
	})
	t.Run("how late the timer was or is, and how late only the one that is served after others", func(t *testing.T) {
		inBubble(t, func(t *testing.T, q *alarm.Queue[owner], b *recorder) {
			b.sleep(time.Hour) // before anything was set
			one, other := newOwner(1), newOwner(2)
			q.Within(&one.Item, 10*time.Second)
			q.Within(&other.Item, 10*time.Second)
			time.Sleep(4 * time.Second)
			require.Zero(t, q.Late(&one.Item))
			b.sleep(9 * time.Second)
			require.Equal(t, 3*time.Second, q.Late(&one.Item), "it should have rung")
			require.Len(t, b.wait(6*time.Second), 2)
			for range 2 {
				require.Equal(t, 9*time.Second, q.Late(&one.Item))
				require.Equal(t, 9*time.Second, q.Late(&other.Item))
				time.Sleep(time.Hour)
			}
			q.Within(&one.Item, 10*time.Second)
			require.Len(t, b.wait(11*time.Second), 3)
			require.Zero(t, q.Late(&one.Item))
			require.Equal(t, 9*time.Second, q.Late(&other.Item))
		})
	})
	t.Run("one that is late stays so, whatever is set meanwhile", func(t *testing.T) {
		inBubble(t, func(t *testing.T, q *alarm.Queue[owner], b *recorder) {
			one, other := newOwner(1), newOwner(2)
			q.Within(&one.Item, time.Second)
			time.Sleep(500 * time.Millisecond)
			b.sleep(time.Minute)
			q.Within(&other.Item, -time.Hour)
			require.Len(t, b.wait(time.Second), 2)
			require.Equal(t, time.Minute, q.Late(&one.Item))
		})
	})
	t.Run("a wait too long for the clock never fires", func(t *testing.T) {
		inBubble(t, func(t *testing.T, q *alarm.Queue[owner], b *recorder) {
			o := newOwner(1)
			time.Sleep(time.Second)
			q.Within(&o.Item, 1<<63-1)
			require.Empty(t, b.wait(1000*time.Hour))
			q.Remove(&o.Item)
		})
	})
}

// TestQueueModel checks that random deadlines fire as in a sorted list.
func TestQueueModel(t *testing.T) {
	for seed := range uint64(50) {
		inBubble(t, func(t *testing.T, q *alarm.Queue[owner], b *recorder) {
			rng := rand.New(rand.NewPCG(seed, 1))
			due := map[int]time.Duration{}
			owners := make([]*owner, 40)
			for i := range owners {
				owners[i] = newOwner(i)
			}
			for range 200 {
				i, d := rng.IntN(len(owners)), time.Duration(rng.IntN(1e9))
				if rng.IntN(4) == 0 {
					q.Remove(&owners[i].Item)
					delete(due, i)
					continue
				}
				q.Within(&owners[i].Item, d)
				if before, set := due[i]; set {
					d = min(d, before)
				}
				due[i] = d
			}
			fired := b.wait(time.Second)
			require.Len(t, fired, len(due))
			require.True(t, slices.IsSortedFunc(fired, func(x, y firing) int { return int(x.after - y.after) }))
			for _, r := range fired {
				require.Equal(t, due[r.name], r.after)
			}
		})
	}
}

// TestShared protects what makes a program small: the queue is made by its first use, once, and fires.
func TestShared(t *testing.T) {
	var shared alarm.Shared[owner]
	fired := make(chan []*owner, 1)
	q := shared.Queue(func(due []*owner) { fired <- due })
	require.Same(t, q, shared.Queue(nil), "there is one")
	one := newOwner(1)
	q.Within(&one.Item, 0)
	require.Equal(t, []*owner{one}, <-fired)
}
