package driver_test

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/driver"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/journal/journaltest"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// allKinds are limits that give a warning, a wrap-up and a stop.
func allKinds() verdict.Limits {
	l := after(time.Hour)
	l.WarnAt, l.Reserve = []float64{0.5}, 10*time.Minute
	return l
}

var everything = []string{
	"directive", "trace", "warning", "log: watchdog could not record a warning",
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
		inBench("directives, trace, warnings, logs, stop", func(t *testing.T, b *bench) {
			k := b.decideAll()
			k.Do(&b.tree, time.Now())
			synctest.Wait()
			heard := b.host.heard()
			require.ElementsMatch(t, everything, heard)
			if !inline { // directives and the trace are told on other goroutines besides
				heard = slices.DeleteFunc(heard, func(what string) bool { return what == "directive" || what == "trace" })
				require.Equal(t, everything[2:], heard)
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
				if end.name == "panics" && (what == "directive" || what == "trace" || what == "warning") {
					continue // the root calls those in a way that catches it
				}
				inBench("the rest is told if the host "+end.name+" at: "+what, func(t *testing.T, b *bench) {
					b.host.on(what, end.call)
					k := b.decideAll()
					done := make(chan struct{})
					go func() {
						defer close(done)
						k.Do(&b.tree, time.Now())
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
	inBubble(t, "a try at what the store lacks tells its caller of no signals", verdict.Off(), func(t *testing.T, b *bench) {
		open := make(chan struct{})
		defer close(open)
		b.host.on("trace", func() { <-open })
		b.store.FailWith(func(context.Context, journaltest.Call) error { return errFull })
		b.Record.Keep(errFull, fold.Event{ID: "1", Type: record.EventProgress, Timestamp: b.now()})
		b.host.mu.Lock()
		b.host.signals = 1 // nobody else has begun to tell of it
		b.host.mu.Unlock()
		began := time.Now()
		tried := false
		go func() {
			b.Retry(began)
			tried = true
		}()
		synctest.Wait() // by then another goroutine has told of it, and blocks
		require.True(t, tried)
		require.Equal(t, began, time.Now())
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

// TestBusy protects when the host is asked whether it is busy, and what its answer does.
func TestBusy(t *testing.T) {
	inAsking := func(name string, busy func() bool, test func(t *testing.T, b *bench)) {
		inNewBubble(t, name, func(t *testing.T, b *bench) {
			l := verdict.Off()
			b.host.busy, l.Idle = busy, 10*time.Minute
			b.begin(t.Context(), l)
			test(t, b)
		})
	}
	inAsking("one that is goes on", func() bool { return true }, func(t *testing.T, b *bench) {
		time.Sleep(time.Hour)
		synctest.Wait()
		require.NoError(t, b.Inner().Err())
	})
	inAsking("one that is not ends at once", func() bool { return false }, func(t *testing.T, b *bench) {
		time.Sleep(10*time.Minute + 1)
		synctest.Wait()
		requireStop(t, b.Run, "idle_exceeded")
	})
	inAsking("a caller waits for the answer", func() bool { time.Sleep(500 * time.Millisecond); return false }, func(t *testing.T, b *bench) {
		b.tree.StopTimer()
		time.Sleep(10*time.Minute + 1)
		began := time.Now()
		require.Error(t, b.Poll())
		require.Equal(t, 500*time.Millisecond, time.Since(began))
	})
	inNewBubble(t, "the store has all of its time after the answer", func(t *testing.T, b *bench) {
		l := verdict.Off()
		b.place.Inline, l.Idle = true, 10*time.Minute
		b.host.busy = func() bool { time.Sleep(900 * time.Millisecond); return false }
		b.begin(t.Context(), l)
		b.store.FailWith(func(ctx context.Context, _ journaltest.Call) error { <-ctx.Done(); return ctx.Err() })
		time.Sleep(10*time.Minute + 1)
		began := time.Now()
		require.Error(t, b.Poll())
		require.Equal(t, timeout+900*time.Millisecond, time.Since(began))
	})
	for name, busy := range map[string]func() bool{
		"panics": func() bool { panic("secret") }, "ends its goroutine": func() bool { runtime.Goexit(); return true },
	} {
		inAsking("one that "+name+" is not", busy, func(t *testing.T, b *bench) {
			time.Sleep(10*time.Minute + 1)
			synctest.Wait()
			requireStop(t, b.Run, "idle_exceeded")
			require.Equal(t, name == "panics", slices.Contains(b.host.heard(), "log: the host panicked in a call of the watchdog"))
		})
	}
	inAsking("one that does not answer in a second is not, which the log is told once", func() bool {
		time.Sleep(time.Minute)
		return true
	}, func(t *testing.T, b *bench) {
		b.tree.StopTimer()
		time.Sleep(10*time.Minute + 1)
		began := time.Now()
		require.Error(t, b.Poll())
		require.Equal(t, machine.BusyTimeout, time.Since(began))
		requireStop(t, b.Run, "idle_exceeded")
		time.Sleep(time.Hour)
		late := slices.DeleteFunc(b.host.heard(), func(what string) bool { return !strings.Contains(what, "did not answer") })
		require.Len(t, late, 1)
	})
}
