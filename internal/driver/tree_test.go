package driver_test

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/driver"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/journal/journaltest"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A countingClock is the machine's, and counts the timers that are made of it.
type countingClock struct{ made atomic.Int32 }

func (c *countingClock) Now() time.Time { return time.Now() }

func (c *countingClock) AfterFunc(d time.Duration, f func()) clocks.Timer {
	c.made.Add(1)
	return time.AfterFunc(d, f)
}

// TestTimer protects that a tree has one timer, however many layers, which looks at what is due and nothing else.
func TestTimer(t *testing.T) {
	inNewBubble(t, "one for all, and each layer ends at its own time", func(t *testing.T, b *bench) {
		c := &countingClock{}
		b.place.Clock, b.place.Instant = c, true // it has no time-out of its own
		b.begin(t.Context(), after(24*time.Hour))
		for i := range 100 {
			b.layer(b.Run, after(time.Duration(100-i)*time.Minute))
		}
		require.EqualValues(t, 1, c.made.Load())
		for i := range 100 {
			time.Sleep(time.Minute)
			if i == 0 {
				time.Sleep(time.Nanosecond) // past the limit, from here on
			}
			synctest.Wait()
			for j, layer := range b.layers {
				require.Equal(t, 100-j <= i+1, layer.Over(), "%d after %d minutes", j, i+1)
			}
		}
		require.EqualValues(t, 1, c.made.Load())
		require.False(t, b.Over())
		b.End(errClosed)
	})
	inBubble(t, "a layer that is due is looked at, and none beside it", after(24*time.Hour), func(t *testing.T, b *bench) {
		warned := after(20 * time.Hour)
		warned.WarnAt = []float64{0.5}
		others := make([]*driver.Run, 10)
		for i := range others {
			others[i], _ = b.layer(b.Run, after(20*time.Hour))
		}
		due, h := b.layer(b.Run, warned)
		time.Sleep(10 * time.Hour)
		synctest.Wait()
		require.Contains(t, h.heard(), "warning")
		require.True(t, due.Quiet(), "it was looked at just now")
		require.False(t, b.Quiet(), "it has to be looked at again by a poll")
		for _, other := range others {
			require.True(t, other.Node.MayBeQuiet())
			require.False(t, other.Quiet())
		}
	})
	inBubble(t, "the number of a layer that has ended is another's, and nobody is taken for it", after(24*time.Hour), func(t *testing.T, b *bench) {
		first, _ := b.layer(b.Run, after(time.Hour))
		number := first.Node.Number
		require.True(t, first.End(errClosed))
		second, _ := b.layer(b.Run, after(2*time.Hour))
		require.Equal(t, number, second.Node.Number)
		require.False(t, first.End(errFull))
		time.Sleep(time.Hour + 1)
		synctest.Wait()
		require.NoError(t, second.Inner().Err())
		require.Equal(t, errClosed, first.Cause())
		time.Sleep(time.Hour)
		synctest.Wait()
		requireStop(t, second, "wall_clock_exceeded")
	})
	inNewBubble(t, "none of a session whose window has its stop, of which nobody is told", func(t *testing.T, b *bench) {
		limits, startedAt := after(time.Hour), event.Truncate(time.Now())
		b.Node.Rules = machine.Rules{Limits: &limits}
		b.tree.Init(t.Context(), b.place, b.Run, b.host, machine.Name{Run: "s-1", StartedAt: startedAt})
		stop := &record.Cancel{Reason: "idle_exceeded"}
		b.tree.TakeUp(&fold.Window{StartedAt: startedAt, Stop: stop}, time.Now())
		b.tree.Start()
		b.TellSince(time.Now())
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		requireStop(t, b.Run, "idle_exceeded")
		require.Empty(t, b.host.heard())
	})
	inBubble(t, "none of a session that has ended", after(time.Hour), func(t *testing.T, b *bench) {
		b.End(errClosed)
		b.host.heard()
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		require.Empty(t, b.host.heard())
		require.Equal(t, errClosed, b.Cause())
	})
	inNewBubble(t, "inline there is none, and a poll finds what a timer would", func(t *testing.T, b *bench) {
		c := &countingClock{}
		b.place.Clock, b.place.Inline, b.place.Instant = c, true, true
		b.begin(t.Context(), after(time.Hour))
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		require.NoError(t, b.Inner().Err())
		require.Zero(t, c.made.Load())
		require.Error(t, b.Poll())
		requireStop(t, b.Run, "wall_clock_exceeded")
	})
	inBubble(t, "many trees that ring at one moment end together", after(time.Hour), func(t *testing.T, b *bench) {
		all := []*driver.Tree{&b.tree}
		benches := []*bench{b}
		for range 9 {
			other := newBench(t)
			other.place.Store = b.store.Journal()
			other.begin(t.Context(), after(time.Hour))
			benches, all = append(benches, other), append(all, &other.tree)
		}
		for _, tree := range all {
			tree.StopTimer()
		}
		time.Sleep(time.Hour + 1)
		driver.RingAll(all)
		synctest.Wait()
		for _, one := range benches {
			requireStop(t, one.Run, "wall_clock_exceeded")
			require.Contains(t, one.host.heard(), "stop: <nil>")
		}
	})
}

// TestLayer protects what a layer and the run around it have to do with each other.
func TestLayer(t *testing.T) {
	inBubble(t, "it ends with its run, by the same cause, and its own end leaves that as it is", after(time.Hour), func(t *testing.T, b *bench) {
		first, _ := b.layer(b.Run, after(time.Minute))
		inner, _ := b.layer(b.Run, verdict.Off())
		innermost, _ := b.layer(inner, verdict.Off())
		require.Equal(t, inner, innermost.Outer())
		require.Nil(t, b.Outer())
		time.Sleep(time.Minute + 1)
		synctest.Wait()
		requireStop(t, first, "wall_clock_exceeded")
		require.NoError(t, b.Inner().Err())
		require.NoError(t, innermost.Err())
		b.End(errClosed)
		require.Equal(t, errClosed, inner.Cause())
		require.Equal(t, errClosed, innermost.Cause())
		require.ErrorIs(t, innermost.Err(), context.Canceled)
		require.True(t, innermost.Over())
	})
	inBubble(t, "a stop of the session is told of once, and none of the layers'", after(time.Hour), func(t *testing.T, b *bench) {
		_, h := b.layer(b.Run, verdict.Off())
		time.Sleep(time.Hour + 1)
		synctest.Wait()
		require.Equal(t, []string{"stop: <nil>"}, b.host.heard())
		require.Empty(t, h.heard())
	})
	inBubble(t, "one that is late fires before it has begun", after(time.Hour), func(t *testing.T, b *bench) {
		layer, _ := b.layer(b.Run, after(-1))
		requireStop(t, layer, "wall_clock_exceeded")
	})
}

// A foreignParent is a context of the host's own type, whose registrations it makes itself.
type foreignParent struct {
	context.Context
	done    chan struct{}
	stopped chan struct{}
	block   chan struct{}
	hooks   func() // is called when a session follows it
}

func (c *foreignParent) Done() <-chan struct{} { return c.done }

func (c *foreignParent) Err() error {
	select {
	case <-c.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func (c *foreignParent) AfterFunc(func()) (stop func() bool) {
	c.hooks()
	return func() bool {
		close(c.stopped)
		<-c.block
		return true
	}
}

// TestParent protects how a session ends with its parent, which is no stop.
func TestParent(t *testing.T) {
	inParent := func(name string, test func(t *testing.T, b *bench, cancel context.CancelCauseFunc)) {
		inNewBubble(t, name, func(t *testing.T, b *bench) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			b.begin(ctx, after(time.Hour))
			test(t, b, cancel)
		})
	}
	inParent("all of it, at once for who looks, by the parent's cause", func(t *testing.T, b *bench, cancel context.CancelCauseFunc) {
		layer, _ := b.layer(b.Run, verdict.Off())
		var work dependent
		work.Begin(layer, work.cancel)
		cancel(errFull)
		require.ErrorIs(t, layer.Err(), context.Canceled)
		require.Equal(t, errFull, b.Cause())
		require.Equal(t, errFull, layer.Cause())
		synctest.Wait()
		require.EqualValues(t, 1, work.ended.Load())
		require.NotContains(t, b.host.heard(), "stop: <nil>")
		events, err := b.store.Read(t.Context(), event.AggregateType, "s-1")
		require.NoError(t, err)
		require.Len(t, events, 1)
		require.Contains(t, string(events[0].Payload), "parent_canceled")
		require.NotContains(t, string(events[0].Payload), errFull.Error())
	})
	inParent("without anybody who looks", func(t *testing.T, b *bench, cancel context.CancelCauseFunc) {
		cancel(errFull)
		synctest.Wait()
		<-b.Inner().Done()
		require.Equal(t, errFull, b.Cause())
	})
	inParent("not after an end of its own, which stays", func(t *testing.T, b *bench, cancel context.CancelCauseFunc) {
		b.End(errClosed)
		cancel(errFull)
		synctest.Wait()
		require.Equal(t, errClosed, b.Cause())
		require.ErrorIs(t, b.Err(), context.Canceled)
	})
	inNewBubble(t, "that had ended before, with its deadline", func(t *testing.T, b *bench) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		time.Sleep(time.Hour)
		b.begin(ctx, after(time.Hour))
		require.Equal(t, context.DeadlineExceeded, b.Err(), "the parent's error")
		require.ErrorIs(t, b.Cause(), context.DeadlineExceeded)
		deadline, ok := b.Deadline()
		require.True(t, ok)
		require.Equal(t, time.Hour-time.Minute, time.Since(deadline))
	})
	foreign := func(b *bench) *foreignParent {
		return &foreignParent{b.t.Context(), make(chan struct{}), make(chan struct{}), make(chan struct{}), func() {}}
	}
	inNewBubble(t, "of the host's own type, which ends who begins to follow it", func(t *testing.T, b *bench) {
		p := foreign(b)
		close(p.block)
		p.hooks = func() { b.End(errClosed) }
		b.begin(p, after(time.Hour))
		<-p.stopped
		require.Equal(t, errClosed, b.Cause())
	})
	inNewBubble(t, "of the host's own type, which may block when it is let go", func(t *testing.T, b *bench) {
		p := foreign(b)
		b.begin(p, after(time.Hour))
		began := time.Now()
		b.End(errClosed)
		require.Zero(t, time.Since(began))
		<-p.stopped
		close(p.block)
	})
	inBubble(t, "a session without one has no deadline", after(time.Hour), func(t *testing.T, b *bench) {
		other := newBench(t)
		other.begin(context.Background(), verdict.Off())
		_, ok := other.Deadline()
		require.False(t, ok)
		require.NoError(t, other.Err())
	})
}

// allKinds are limits that give a warning, a wrap-up and a stop.
func allKinds() verdict.Limits {
	l := after(time.Hour)
	l.WarnAt, l.Reserve = []float64{0.5}, 10*time.Minute
	return l
}

var everything = []string{
	"directive", "warning", "log: watchdog could not record a warning",
	"log: watchdog could not record a directive", "stop: append cancel event: disk full",
}

// decideAll has all of them decided, and returns the work that nobody has done yet.
func (b *bench) decideAll() driver.Work {
	b.store.FailWith(func(context.Context, journaltest.Call) error { return errFull })
	time.Sleep(31 * time.Minute)
	k := b.tree.Step(b.Run, &machine.Input{Kind: machine.Look})
	time.Sleep(20 * time.Minute)
	b.tree.Step(b.Run, &machine.Input{Kind: machine.Look})
	time.Sleep(10 * time.Minute)
	b.tree.Step(b.Run, &machine.Input{Kind: machine.Look})
	return k
}

// TestNews protects in which order the host is told, and that nothing of it is lost.
func TestNews(t *testing.T) {
	for _, inline := range []bool{true, false} {
		inBench := func(name string, test func(t *testing.T, b *bench)) {
			inNewBubble(t, map[bool]string{true: "inline, ", false: "aside, "}[inline]+name, func(t *testing.T, b *bench) {
				b.place.Inline = inline
				b.begin(t.Context(), allKinds())
				if !inline {
					b.tree.StopTimer()
				}
				test(t, b)
			})
		}
		inBench("directives, warnings, logs, stop", func(t *testing.T, b *bench) {
			k := b.decideAll()
			k.Pass(&b.tree, time.Now())
			synctest.Wait()
			heard := b.host.heard()
			require.ElementsMatch(t, everything, heard)
			if !inline { // directives are told on other goroutines besides
				heard = slices.DeleteFunc(heard, func(what string) bool { return what == "directive" })
				require.Equal(t, everything[1:], heard)
				return
			}
			require.Equal(t, everything, heard)
			requireStop(t, b.Run, "wall_clock_exceeded")
		})
		for _, end := range []struct {
			name string
			call func()
		}{{"panics", func() { panic("secret") }}, {"ends its goroutine", runtime.Goexit}} {
			for _, what := range everything {
				if end.name == "panics" && (what == "directive" || what == "warning") {
					continue // the root calls those in a way that catches it
				}
				inBench("the rest is told if the host "+end.name+" at: "+what, func(t *testing.T, b *bench) {
					b.host.on(what, end.call)
					k := b.decideAll()
					done := make(chan struct{})
					go func() {
						defer close(done)
						k.Pass(&b.tree, time.Now())
					}()
					<-done
					synctest.Wait()
					require.ElementsMatch(t, everything, b.host.heard())
					requireStop(t, b.Run, "wall_clock_exceeded")
				})
			}
		}
	}
}

// TestBlock protects the callers of a run from its host: nobody waits for it longer than the time-out.
func TestBlock(t *testing.T) {
	for _, what := range everything {
		inBubble(t, "the host blocks at: "+what, allKinds(), func(t *testing.T, b *bench) {
			b.tree.StopTimer()
			open := make(chan struct{})
			defer close(open)
			b.host.on(what, func() { <-open })
			b.store.FailWith(func(context.Context, journaltest.Call) error { return errFull })
			for _, d := range []time.Duration{31 * time.Minute, 20 * time.Minute, 10 * time.Minute} {
				time.Sleep(d)
				began := time.Now()
				err := b.Poll()
				require.LessOrEqual(t, time.Since(began), timeout)
				require.Equal(t, d == 10*time.Minute, err != nil)
				began = time.Now()
				b.Poll()
				require.LessOrEqual(t, time.Since(began), timeout)
			}
			requireStop(t, b.Run, "wall_clock_exceeded")
			began := time.Now()
			b.LogSince(began, func() { <-open })
			require.Equal(t, timeout, time.Since(began))
			b.LogSince(began, func() { <-open })
			require.Equal(t, timeout, time.Since(began), "of one time-out nothing is left")
		})
	}
	inBubble(t, "a store that hangs holds up a caller for one time-out, and the host is told then", after(time.Hour), func(t *testing.T, b *bench) {
		b.tree.StopTimer()
		b.store.FailWith(func(ctx context.Context, _ journaltest.Call) error { <-ctx.Done(); return ctx.Err() })
		time.Sleep(time.Hour + 1)
		began := time.Now()
		require.Error(t, b.Poll())
		require.Equal(t, timeout, time.Since(began))
		synctest.Wait()
		require.Contains(t, strings.Join(b.host.heard(), "\n"), "stop: append cancel event")
	})
	inBubble(t, "who waits for an end that the timer found does not wait for the host", after(time.Hour), func(t *testing.T, b *bench) {
		open := make(chan struct{})
		defer close(open)
		b.host.on("stop: <nil>", func() { <-open })
		b.store.FailWith(func(context.Context, journaltest.Call) error { time.Sleep(time.Second); return nil })
		time.Sleep(time.Hour + 1)
		synctest.Wait()
		began := time.Now()
		require.Error(t, b.Poll())
		require.Equal(t, time.Second, time.Since(began))
	})
	inBubble(t, "the timer waits for nothing", allKinds(), func(t *testing.T, b *bench) {
		open := make(chan struct{})
		defer close(open)
		for _, what := range everything {
			b.host.on(what, func() { <-open })
		}
		time.Sleep(time.Hour + 1)
		synctest.Wait()
		requireStop(t, b.Run, "wall_clock_exceeded")
		require.Nil(t, b.Recorded())
	})
}
