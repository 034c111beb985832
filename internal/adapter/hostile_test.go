package adapter_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
	"github.com/seed62658d38/watchdog/internal/adapter"
	"github.com/seed62658d38/watchdog/loop"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bubble runs a subtest with fake time.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

func answers(context.Context) (string, error) { return "ok", nil }

// TestGuardsTogether checks that guards of one run, such as those of two agents or of two SDKs, call tools of one name
// at once.
func TestGuardsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{})
		var all sync.WaitGroup
		for range 20 {
			g := adapter.New(limits)
			all.Go(func() {
				for range 3 {
					result, ended, err := use(wd.Context(), g, func(context.Context) (string, error) {
						time.Sleep(time.Second)
						return "ok", nil
					})
					assert.NoError(t, err)
					assert.Nil(t, ended)
					assert.Equal(t, "ok", result)
				}
			})
		}
		all.Wait()
	})
}

// An untimely context ends the run at one of its uses, wherever in a call of a tool that is.
type untimely struct {
	context.Context
	left *atomic.Int64 // uses until then
	end  func()
}

func (c untimely) use() {
	if c.left.Add(-1) == 0 {
		c.end()
	}
}

func (c untimely) Value(key any) any     { c.use(); return c.Context.Value(key) }
func (c untimely) Done() <-chan struct{} { c.use(); return c.Context.Done() }
func (c untimely) Err() error            { c.use(); return c.Context.Err() }

// TestToolUntimely checks that a call whose run ends at any point of it fails, or was made: a call that was not made has
// no result.
func TestToolUntimely(t *testing.T) {
	for name, end := range map[string]func(*watchdog.Watchdog){
		"closed":    func(wd *watchdog.Watchdog) { _ = wd.Close() },
		"complete":  func(wd *watchdog.Watchdog) { _ = wd.Complete() },
		"cancelled": func(wd *watchdog.Watchdog) { _, _ = wd.Cancel(watchdog.Cancellation{Reason: "operator_stop"}) },
	} {
		t.Run(name, func(t *testing.T) {
			for uses := range int64(60) {
				wd, err := watchdog.New(t.Context(), watchdog.Run{}, watchdog.Config{Logger: slog.New(slog.DiscardHandler)})
				require.NoError(t, err)
				made, ctx := false, untimely{wd.Context(), &atomic.Int64{}, func() { end(wd) }}
				ctx.left.Store(uses + 1)
				result, ended, err := use(ctx, adapter.New(limits), func(context.Context) (string, error) {
					made = true
					return "ok", nil
				})
				assert.Nil(t, ended, uses)
				assert.Equal(t, err == nil, result == "ok", "use %d: %v", uses, err)
				assert.True(t, made || err != nil, uses)
				require.NoError(t, wd.Close())
			}
		})
	}
}

// TestCallbacksPanic checks that a callback of the host that panics leaves nothing open.
func TestCallbacksPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd, euro := newRun(t, watchdog.Budget{
			Idle:  time.Second,
			Spend: watchdog.Spend{ToolCalls: 10, Requests: 10, Cost: watchdog.Money{Micros: 1000, Currency: "EUR"}},
		}), watchdog.Money{Micros: 10, Currency: "EUR"}
		broken := false
		g := adapter.New(adapter.Config{
			Class: func(string) loop.Class { panic("a callback") },
			Cost: func(string, watchdog.Amount) watchdog.Money {
				if broken {
					panic("a callback")
				}
				return euro
			},
		})
		assert.Panics(t, func() { _, _, _ = use(wd.Context(), g, answers) })
		call, _, err := g.Model(wd.Context(), adapter.ModelRequest{})
		require.NoError(t, err)
		broken = true
		assert.Panics(t, func() { call.End(adapter.Usage{Input: 1, Output: 1}) })
		assert.Panics(t, func() { _, _, _ = g.Model(wd.Context(), adapter.ModelRequest{}) })
		for _, u := range wd.Usage() {
			assert.Zero(t, u.Admitted, u.Limit)
			assert.NotZero(t, u.Used, u.Limit)
		}
		time.Sleep(time.Second + 1)
		assert.NotNil(t, wd.Stop(), "the hold is closed")
	})
}

// TestGoexit checks that work that ends its goroutine is work that failed.
func TestGoexit(t *testing.T) {
	wd, g := newRun(t, watchdog.Budget{}), adapter.New(limits)
	exits := func(context.Context) (string, error) { runtime.Goexit(); return "", nil }
	_, ended, err := use(wd.Context(), g, exits)
	assert.Nil(t, ended)
	require.ErrorIs(t, err, bound.ErrExited)
	_, err = adapter.Attempt(wd.Context(), g, exits)
	require.ErrorContains(t, err, "it ended its goroutine")
}

// TestLimitsInvalid checks that limits that cannot be kept are an error, and no call without limits.
func TestLimitsInvalid(t *testing.T) {
	wd := newRun(t, watchdog.Budget{})
	for field, l := range map[string]adapter.Limits{"Limit": {Limit: -1}, "Idle": {Idle: -1}, "Grace": {Grace: -1}} {
		_, ended, err := use(wd.Context(), adapter.New(adapter.Config{Tools: l}), answers)
		assert.Nil(t, ended)
		require.ErrorIs(t, err, watchdog.ErrInvalid)
		require.ErrorContains(t, err, field)
	}
}

// A failing store does what it is told before it takes events.
type failing struct {
	*watchdog.Memory
	fail func(context.Context) error // nil for nothing
}

func (s *failing) Append(ctx context.Context, events ...watchdog.Event) error {
	if err := s.first(ctx); err != nil {
		return err
	}
	return s.Memory.Append(ctx, events...)
}

func (s *failing) Transact(ctx context.Context, exchanges ...*watchdog.Exchange) error {
	if err := s.first(ctx); err != nil {
		return err
	}
	return s.Memory.Transact(ctx, exchanges...)
}

func (s *failing) first(ctx context.Context) error {
	if s.fail == nil {
		return nil
	}
	return s.fail(ctx)
}

// TestStoreFails checks that a hung tool ends, and a quick one is quick, while the store fails or hangs: what is ended is
// answered for at most three record timeouts late, for the record of its end and the last tries at that.
func TestStoreFails(t *testing.T) {
	late := 3 * watchdog.DefaultRecordTimeout
	for name, c := range map[string]struct {
		fail func(context.Context) error
		late time.Duration
	}{
		"it is full":       {fail: func(context.Context) error { return errors.New("disk full") }},
		"it hangs":         {fail: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, late: late},
		"it hangs for 5 s": {fail: func(context.Context) error { time.Sleep(5 * time.Second); return nil }, late: late},
		"it hangs for ever": {
			fail: func(context.Context) error { time.Sleep(time.Hour); return errors.New("much too late") }, late: late,
		},
	} {
		bubble(t, name, func(t *testing.T) {
			store := &failing{Memory: &watchdog.Memory{}}
			wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "r", StartedAt: time.Now()}, watchdog.Config{
				Store: store, Logger: slog.New(slog.DiscardHandler), Budget: watchdog.Budget{Idle: time.Hour},
			})
			require.NoError(t, err)
			store.fail = c.fail
			cfg, began := limits, time.Now()
			cfg.Tool = map[string]adapter.Limits{"busy": {Limit: time.Minute, Idle: watchdog.NoLimit}}
			g := adapter.New(cfg)
			for _, tool := range []string{"search", "busy", "search", "busy"} {
				_, ended, err := adapter.Do(wd.Context(), g, adapter.ToolCall{Tool: tool}, until, nil)
				require.NoError(t, err)
				require.NotNil(t, ended)
				assert.LessOrEqual(t, time.Since(began), time.Minute+c.late+1, tool)
				began = time.Now()
				result, _, err := use(wd.Context(), g, answers)
				require.NoError(t, err)
				assert.Equal(t, "ok", result)
				assert.Zero(t, time.Since(began))
			}
			_ = wd.Close()
			time.Sleep(2 * time.Hour) // what the store was left with returns
		})
	}
}

// TestMemory checks that calls, and calls within calls, leave no memory; nor goroutines, as TestMain checks.
func TestMemory(t *testing.T) {
	wd := newRun(t, watchdog.Budget{Idle: time.Hour, Spend: watchdog.Spend{ToolCalls: 1 << 40}})
	g := adapter.New(limits)
	calls := func() {
		for i := range 2_000 {
			_, _, err := use(wd.Context(), g, func(ctx context.Context) (string, error) {
				_, _, err := use(ctx, g, answers)
				return fmt.Sprint(i), err
			})
			require.NoError(t, err)
			if i%100 == 0 {
				call, _, err := g.Model(wd.Context(), adapter.ModelRequest{})
				require.NoError(t, err)
				call.End(adapter.Usage{Input: 1})
			}
		}
	}
	assert.Empty(t, kept(calls, 128<<10, 1_000), "after 4,000 calls each time")
	t.Run("what is kept is found", func(t *testing.T) {
		var large [][]byte
		assert.Len(t, kept(func() { large = append(large, make([]byte, 144<<10)) }, 128<<10, 1_000), tries)
		var small []*int
		assert.Len(t, kept(func() {
			for i := range 2_000 {
				small = append(small, &i)
			}
		}, 128<<10, 1_000), tries)
		runtime.KeepAlive(large)
		runtime.KeepAlive(small)
	})
}

// tries is how often what the work keeps is measured.
const tries = 5

// kept returns by how much the heap grows each time that the work is done: nothing if it once grows by less bytes and
// objects than that. What the runtime and what is left of other tests add, they add once or shrink again; what the work
// keeps is added each time. The objects tell also where the bytes shrink meanwhile.
func kept(work func(), bytes, objects int64) (grown []string) {
	work()
	before := heap()
	for range tries {
		work()
		now := heap()
		if now.bytes-before.bytes < bytes && now.objects-before.objects < objects {
			return nil
		}
		grown = append(grown, fmt.Sprintf("%d bytes in %d objects", now.bytes-before.bytes, now.objects-before.objects))
		before = now
	}
	return grown
}

type heapSize struct{ bytes, objects int64 }

// heap is what is in use, without what finalizers, cleanups and pools keep for a while.
func heap() heapSize {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return heapSize{int64(m.HeapAlloc), int64(m.HeapObjects)}
}

func bare(context.Context) (string, error) { return "ok", nil }

// BenchmarkTool is a call of a tool with its hold, its layer and its step, in a run that is kept in memory.
func BenchmarkTool(b *testing.B) {
	wd, call := newRun(b, watchdog.Budget{Idle: time.Hour}), search(`{"q":"x"}`)
	var g *adapter.Guard
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%64 == 0 { // as many steps wait for the next call of the model
			g = adapter.New(adapter.Config{})
		}
		if _, _, err := adapter.Do(wd.Context(), g, call, bare, nil); err != nil {
			b.Fatal(err)
		}
	}
}
