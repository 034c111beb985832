package lane_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/lane"
)

// TestInline protects that where the caller carries nothing else differs.
func TestInline(t *testing.T) {
	faults := map[string]func(ctx context.Context, c call) error{
		"answers":            nil,
		"refuses":            func(context.Context, call) error { return errFull },
		"panics":             func(context.Context, call) error { panic("secret") },
		"ends its goroutine": func(context.Context, call) error { runtime.Goexit(); return nil },
		"hangs":              func(ctx context.Context, _ call) error { <-ctx.Done(); return ctx.Err() },
	}
	for name, fault := range faults {
		for _, steps := range []bool{false, true} {
			t.Run(fmt.Sprintf("the store %s (takes steps: %v)", name, steps), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					came := map[bool]any{}
					for _, inline := range []bool{true, false} {
						came[inline] = carried(t, &store{Steps: steps}, inline, fault)
					}
					require.Equal(t, came[false], came[true])
				})
			})
		}
	}
	t.Run("nothing is tried again but by a caller", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, &store{})
			b.place.Inline = true
			b.store.Refuse()
			r := b.begin(1)[0]
			noteAll(r)
			require.Len(t, b.store.Calls(), 1)
			time.Sleep(time.Hour)
			require.Empty(t, b.store.Calls())
			b.store.FailWith(nil)
			require.True(t, r.WantAgain())
			require.False(t, r.WantAgain(), "somebody is at it")
			r.Carry(time.Now())
			require.False(t, r.Waiting())
			require.Nil(t, r.Underway())
			require.False(t, r.WantAgain())
		})
	})
	t.Run("what is decided meanwhile is recorded by who carries", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, &store{})
			b.place.Inline = true
			r := b.begin(1)[0]
			b.store.FailWith(func(context.Context, call) error {
				b.store.FailWith(nil)
				_, begin := r.note()
				require.False(t, begin)
				return nil
			})
			noteAll(r)
			require.False(t, r.Waiting())
			require.Len(t, b.store.Calls(), 2)
			require.Len(t, r.tried, 2)
			hang := func(ctx context.Context, _ call) error { <-ctx.Done(); return ctx.Err() }
			b.store.FailWith(func(ctx context.Context, c call) error {
				b.store.FailWith(hang)
				time.Sleep(timeout / 2)
				r.note()
				return hang(ctx, c)
			})
			began := time.Now()
			noteAll(r)
			require.Equal(t, timeout, time.Since(began), "for as long as the caller has")
		})
	})
}

// carried is what came of an end and an entry of two runs.
func carried(t *testing.T, s *store, inline bool, fault func(ctx context.Context, c call) error) (all []string) {
	b := newBench(t, s)
	b.place.Inline = inline
	b.store.FailWith(fault)
	runs := b.begin(2)
	for _, r := range runs {
		done := make(chan struct{})
		r.note()
		r.decide()
		go func() { // whose goroutine the store may end
			defer close(done)
			if inline {
				r.Carry(time.Now())
			} else {
				lane.Enqueue(&r.Recorder)
			}
		}()
		<-done
		time.Sleep(timeout + 500*time.Millisecond)
	}
	synctest.Wait()
	for _, r := range runs {
		r.close()
		end := r.end(t)
		require.NotNil(t, end.known.Stop)
		require.Nil(t, r.Underway())
		require.False(t, r.Busy())
		failed := end.err != nil
		all = append(all, fmt.Sprint(b.keeps(r), end.known.Stop.Reason, failed, r.Waiting(), len(r.tried), r.told > 0))
		if failed {
			all = append(all, fmt.Sprint(end.at))
		}
	}
	return all
}
