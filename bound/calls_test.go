package bound_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed62658d38/watchdog/bound"
	"github.com/stretchr/testify/require"
)

func TestKey(t *testing.T) {
	t.Run("is refused to a second call while one is in flight, by name", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			call, _, _ := keyed()
			began := time.Now()
			bound.Do(t.Context(), call, func(ctx context.Context) (string, error) {
				time.Sleep(time.Second)
				out := bound.Do(ctx, call, func(context.Context) (string, error) { panic("begun") })
				var inUse *bound.KeyInUse
				require.ErrorAs(t, out.Err, &inUse)
				require.Equal(t, &bound.KeyInUse{Key: "tick", Since: began}, inUse)
				require.ErrorIs(t, out.Err, bound.ErrKeyInUse)
				require.ErrorContains(t, out.Err, `a call "tick" is in flight since 2000-01-01T00:00:00Z`)
				require.Equal(t, bound.LayerNone, out.Layer)
				return "", nil
			})
		})
	})
	t.Run("is no one else's: other keys, other Calls and calls without a key are not refused", func(t *testing.T) {
		call, _, _ := keyed()
		other, elsewhere, none := call, call, call
		other.Key, elsewhere.Calls, none.Key = "tock", &bound.Calls{}, ""
		bound.Do(t.Context(), call, func(ctx context.Context) (string, error) {
			for _, c := range []bound.Call{other, elsewhere, none} {
				require.NoError(t, bound.Do(ctx, c, ignoring(0, nil)).Err)
			}
			return "", nil
		})
	})
	t.Run("is free again after a return, an overrun, a panic and an exit", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			call, _, _ := keyed()
			for _, work := range []func(context.Context) (string, error){
				ignoring(0, nil), ignoring(0, errTick), obeying,
				func(context.Context) (string, error) { panic(canaryPanic) },
				func(context.Context) (string, error) { runtime.Goexit(); return "", nil },
			} {
				func() {
					defer func() { _ = recover() }()
					bound.Do(t.Context(), call, work)
				}()
				require.NoError(t, bound.Do(t.Context(), call, ignoring(0, nil)).Err)
			}
		})
	})
	t.Run("is free again after the hard cancel, though the call runs on", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			call, calls, _ := keyed()
			bound.Do(t.Context(), call, ignoring(time.Hour, nil))
			require.NoError(t, bound.Do(t.Context(), call, ignoring(0, nil)).Err)
			require.Len(t, calls.Abandoned(), 1)
			time.Sleep(time.Hour)
		})
	})
	t.Run("stays a newer call's when an abandoned one ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			call, calls, _ := keyed()
			bound.Do(t.Context(), call, ignoring(80*time.Second, nil))
			bound.Do(t.Context(), call, func(ctx context.Context) (string, error) {
				time.Sleep(30 * time.Second)
				require.Empty(t, calls.Abandoned(), "the first one has ended")
				require.ErrorIs(t, bound.Do(ctx, call, ignoring(0, nil)).Err, bound.ErrKeyInUse)
				return "", nil
			})
		})
	})
	t.Run("is one call's when many want it at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			call, _, _ := keyed()
			errs := make(chan error, 64)
			for range cap(errs) {
				go func() { errs <- bound.Do(t.Context(), call, ignoring(time.Second, nil)).Err }()
			}
			refused := 0
			for range cap(errs) {
				if errors.Is(<-errs, bound.ErrKeyInUse) {
					refused++
				}
			}
			require.Equal(t, cap(errs)-1, refused)
		})
	})
}

func TestPanic(t *testing.T) {
	// panicOf returns what the call panics with, on the goroutine of its caller.
	panicOf := func(ctx context.Context, call bound.Call, work func(context.Context) (string, error)) (p *bound.CallPanic) {
		defer func() { p, _ = recover().(*bound.CallPanic) }()
		bound.Do(ctx, call, work)
		return nil
	}
	t.Run("reaches the caller as a panic, with its value and its stack", func(t *testing.T) {
		p := panicOf(t.Context(), tick, func(context.Context) (string, error) { panic(canaryPanic) })
		require.Equal(t, canaryPanic, p.Value)
		require.Contains(t, string(p.Stack), "TestPanic")
		require.NoError(t, p.Unwrap())
		require.Contains(t, p.Error(), canaryPanic)
		require.Contains(t, p.Error(), string(p.Stack))
	})
	t.Run("can be looked for as the error that it is", func(t *testing.T) {
		p := panicOf(t.Context(), tick, func(context.Context) (string, error) { panic(errTick) })
		require.ErrorIs(t, p, errTick)
		p = panicOf(t.Context(), tick, func(context.Context) (string, error) {
			var none []string
			return none[len(none)], nil
		})
		var bug runtime.Error
		require.ErrorAs(t, p, &bug)
	})
	t.Run("may be nil", func(t *testing.T) {
		p := panicOf(t.Context(), tick, func(context.Context) (string, error) { panic(nil) })
		var bug *runtime.PanicNilError
		require.ErrorAs(t, p, &bug)
	})
	t.Run("reaches the caller also within the grace, after the limit and after an outside cancel", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			panics := func(ctx context.Context) (string, error) {
				<-ctx.Done()
				time.Sleep(time.Second)
				panic(canaryPanic)
			}
			require.NotNil(t, panicOf(t.Context(), tick, panics))
			require.NotNil(t, panicOf(cutAfter(t, time.Second), tick, panics))
		})
	})
	t.Run("is an error where the call only ends its goroutine", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			exits := func(ctx context.Context) (string, error) { runtime.Goexit(); return "", nil }
			out := bound.Do(t.Context(), tick, exits)
			require.Equal(t, bound.ErrExited, out.Err)
			require.Equal(t, bound.ErrExited, out.ResultErr)
			require.Equal(t, bound.LayerNone, out.Layer)
			out = bound.Do(t.Context(), tick, func(ctx context.Context) (string, error) {
				<-ctx.Done()
				return exits(ctx)
			})
			require.ErrorIs(t, out.Err, bound.ErrExited)
			require.Equal(t, bound.LayerSoft, out.Layer)
		})
	})
}
