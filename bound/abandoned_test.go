package bound_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
)

// canaryPanic is what calls panic with: it must be in no log.
const canaryPanic = "canary-77aa"

// A journal is a log that a test reads.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(j, nil)) }

// keyed is a call under a key, with a log that can be read.
func keyed() (bound.Call, *bound.Calls, *journal) {
	calls, log := &bound.Calls{}, &journal{}
	call := tick
	call.Key, call.Calls, call.Logger = "tick", calls, log.logger()
	return call, calls, log
}

func TestAbandoned(t *testing.T) {
	t.Run("are counted and listed until they end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			call, calls, log := keyed()
			start := time.Now()
			bound.Do(t.Context(), call, ignoring(time.Hour, nil))
			entry := bound.AbandonedCall{Key: "tick", StartedAt: start, AbandonedAt: start.Add(70*time.Second + 2)}
			require.Equal(t, []bound.AbandonedCall{entry}, calls.Abandoned())
			require.Equal(t, bound.Counts{Abandoned: 1}, calls.Counts())
			require.Empty(t, log.String(), "the caller knows")
			time.Sleep(time.Hour)
			require.Empty(t, calls.Abandoned())
			require.Equal(t, []bound.LateEnd{{AbandonedCall: entry, EndedAt: start.Add(time.Hour)}}, calls.LateEnds())
			require.Equal(t, bound.Counts{Abandoned: 1, Ended: 1}, calls.Counts())
			require.Contains(t, log.String(), `"msg":"abandoned call ended","key":"tick"`)
		})
	})
	t.Run("are listed with the last thing noted", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			call, calls, _ := keyed()
			wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
				Store: &watchdog.Memory{}, Logger: quiet,
			})
			require.NoError(t, err)
			defer wd.Close()
			wd.Note("read_file")
			bound.Do(wd.Context(), call, ignoring(time.Hour, nil))
			require.Equal(t, "read_file", calls.Abandoned()[0].Note)
			time.Sleep(time.Hour)
		})
	})
	t.Run("are listed in the order in which they were abandoned, without a key too", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			call, calls, _ := keyed()
			for _, key := range []string{"b", "", "a"} {
				call.Key = key
				bound.Do(t.Context(), call, ignoring(time.Hour, nil))
			}
			listed := calls.Abandoned()
			require.Len(t, listed, 3)
			require.Equal(t, []string{"b", "", "a"}, []string{listed[0].Key, listed[1].Key, listed[2].Key})
			time.Sleep(2 * time.Hour)
			require.Len(t, calls.LateEnds(), 3)
		})
	})
	t.Run("leave no result to the next call", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			call, _, _ := keyed()
			late := bound.Do(t.Context(), call, ignoring(80*time.Second, nil))
			next := bound.Do(t.Context(), call, func(context.Context) (string, error) {
				time.Sleep(30 * time.Second) // the first call ends meanwhile
				return "mine", nil
			})
			require.Equal(t, "mine", next.Result)
			require.Empty(t, late.Result)
		})
	})
	t.Run("leave nothing but their own goroutine", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			bound.Do(t.Context(), tick, ignoring(time.Hour, nil))
			synctest.Wait()
			require.Equal(t, 1, ownGoroutines())
			time.Sleep(time.Hour)
			synctest.Wait()
			require.Zero(t, ownGoroutines())
		})
	})
	t.Run("are remembered at their last 32 ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			call, calls, _ := keyed()
			for i := range 40 {
				call.Key = fmt.Sprint(i)
				bound.Do(t.Context(), call, ignoring(71*time.Second, nil))
			}
			time.Sleep(time.Minute)
			ends := calls.LateEnds()
			require.Len(t, ends, 32)
			require.Equal(t, "39", ends[31].Key)
			require.Equal(t, uint64(40), calls.Counts().Ended)
		})
	})
}

// ownGoroutines counts the goroutines that the library began. (How many the process has, other tests change at any
// moment.)
func ownGoroutines() int {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return bytes.Count(stacks, []byte("\ncreated by github.com/seed62658d38/watchdog/bound."))
}

func TestLatePanic(t *testing.T) {
	t.Run("harms nobody, and is counted, listed and logged without what it says", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			call, calls, log := keyed()
			out := bound.Do(t.Context(), call, func(context.Context) (string, error) {
				time.Sleep(time.Hour)
				panic(canaryPanic)
			})
			require.True(t, out.Abandoned)
			time.Sleep(time.Hour)
			require.Equal(t, bound.Counts{Abandoned: 1, Ended: 1, Panicked: 1}, calls.Counts())
			end := calls.LateEnds()[0]
			require.Equal(t, canaryPanic, end.Panic.Value)
			require.Contains(t, string(end.Panic.Stack), "TestLatePanic")
			require.Contains(t, log.String(), `"level":"ERROR","msg":"abandoned call panicked","key":"tick"`)
			require.Contains(t, log.String(), `"panic_type":"string"`)
			require.NotContains(t, log.String(), canaryPanic)
		})
	})
	t.Run("is logged where there are no Calls", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			call, _, log := keyed()
			call.Key, call.Calls = "", nil
			bound.Do(t.Context(), call, func(context.Context) (string, error) {
				time.Sleep(time.Hour)
				panic(canaryPanic)
			})
			time.Sleep(time.Hour)
			require.Contains(t, log.String(), "abandoned call panicked")
		})
	})
	t.Run("is logged with the run where there is one, by its logger", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			log := &journal{}
			wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
				Store: &watchdog.Memory{}, Logger: log.logger(),
			})
			require.NoError(t, err)
			defer wd.Close()
			bound.Do(wd.Context(), bound.Call{Limit: time.Second, Grace: time.Second}, func(context.Context) (string, error) {
				time.Sleep(time.Hour)
				panic(canaryPanic)
			})
			time.Sleep(time.Hour)
			require.Contains(t, log.String(), `"run":"s-1"`)
		})
	})
	t.Run("ends no process, nor does a log that panics, too", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			call, calls, _ := keyed()
			call.Logger = slog.New(hostileLog{slog.DiscardHandler, func() { panic("log") }})
			for _, late := range []any{nil, canaryPanic} {
				bound.Do(t.Context(), call, func(context.Context) (string, error) {
					if time.Sleep(time.Hour); late != nil {
						panic(late)
					}
					return "", nil
				})
			}
			time.Sleep(time.Hour)
			require.Equal(t, bound.Counts{Abandoned: 2, Ended: 2, Panicked: 1}, calls.Counts())
		})
	})
	t.Run("may be an exit of its goroutine", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			call, calls, _ := keyed()
			bound.Do(t.Context(), call, func(context.Context) (string, error) {
				time.Sleep(time.Hour)
				runtime.Goexit()
				return "", nil
			})
			time.Sleep(time.Hour)
			require.Equal(t, bound.Counts{Abandoned: 1, Ended: 1}, calls.Counts())
		})
	})
}

func TestRelease(t *testing.T) {
	t.Run("runs once, when the call is abandoned, before the caller has its answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			call, released := tick, 0
			call.Release = func() { released++ }
			bound.Do(t.Context(), call, ignoring(time.Hour, nil))
			require.Equal(t, 1, released)
			time.Sleep(time.Hour)
			require.Equal(t, 1, released, "the late end is not the hard path")
			bound.Do(cutAfter(t, time.Second), call, ignoring(time.Hour, nil))
			require.Equal(t, 2, released)
			time.Sleep(time.Hour)
		})
	})
	t.Run("does not run for a call that returns, panics or is refused", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			call, _, _ := keyed()
			call.Release = func() { t.Error("released") }
			bound.Do(t.Context(), call, ignoring(0, nil))
			bound.Do(t.Context(), call, ignoring(65*time.Second, nil))
			bound.Do(t.Context(), call, func(context.Context) (string, error) {
				require.Error(t, bound.Do(t.Context(), call, obeying).Err)
				return "", nil
			})
			require.Panics(t, func() {
				bound.Do(t.Context(), call, func(context.Context) (string, error) { panic(canaryPanic) })
			})
		})
	})
	t.Run("may panic: it is logged, and the caller has its answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			call, calls, log := keyed()
			call.Release = func() { panic(canaryPanic) }
			out := bound.Do(t.Context(), call, ignoring(time.Hour, nil))
			require.Equal(t, bound.LayerHard, out.Layer)
			require.Contains(t, log.String(), "release hook of an abandoned call panicked")
			require.NotContains(t, log.String(), canaryPanic)
			require.NoError(t, bound.Do(t.Context(), call, ignoring(0, nil)).Err, "the key is free")
			require.Len(t, calls.Abandoned(), 1)
			time.Sleep(time.Hour)
		})
	})
	t.Run("may hang: the caller has its answer another grace later", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			call, _, log := keyed()
			call.Release = func() { time.Sleep(time.Hour) }
			start := time.Now()
			out := bound.Do(t.Context(), call, ignoring(time.Hour, nil))
			require.Equal(t, 80*time.Second+2, time.Since(start))
			require.Equal(t, 70*time.Second+2, out.Elapsed)
			require.Equal(t, 1, strings.Count(log.String(), "has not returned"))
			time.Sleep(2 * time.Hour)
		})
	})
	for name, log := range map[string]func(){
		"blocks": func() { time.Sleep(3 * time.Hour) }, "panics": func() { panic("log") },
	} {
		t.Run("may hang with a log that "+name+": the caller has its answer two graces later", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				call, start := tick, time.Now()
				call.Release = func() { time.Sleep(time.Hour) }
				call.Logger = slog.New(hostileLog{slog.DiscardHandler, log})
				bound.Do(t.Context(), call, ignoring(time.Hour, nil))
				require.LessOrEqual(t, time.Since(start), 90*time.Second+2)
				time.Sleep(5 * time.Hour)
			})
		})
	}
	t.Run("has given back what the call held by the time its key is free", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			call, _, _ := keyed()
			call.Release = func() {
				next := call
				next.Release = nil
				require.ErrorIs(t, bound.Do(t.Context(), next, ignoring(0, nil)).Err, bound.ErrKeyInUse)
			}
			bound.Do(t.Context(), call, ignoring(time.Hour, nil))
			time.Sleep(time.Hour)
		})
	})
}

// A hostileLog makes a call for each record.
type hostileLog struct {
	slog.Handler
	call func()
}

func (l hostileLog) Enabled(context.Context, slog.Level) bool { return true }

func (l hostileLog) Handle(context.Context, slog.Record) error {
	l.call()
	return nil
}
