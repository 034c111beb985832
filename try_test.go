package watchdog_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

var (
	retry   = watchdog.DirectiveRetry
	unstuck = watchdog.DirectiveUnstuck
	waiting = watchdog.DirectiveWait
)

// hangs is work that ends only with its context.
func hangs(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// tried is the key of what the context of work holds.
type tried struct{}

// inLadder runs the test in a bubble with a run whose idle limit is 300 ms and has the ladder.
func inLadder(t *testing.T, test func(b *fixture, wd *watchdog.Watchdog), rungs ...watchdog.DirectiveKind) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newFixture(t)
		b.run.StartedAt, b.cfg.Clock = time.Now(), nil
		b.cfg.Budget = watchdog.Budget{Idle: 300 * time.Millisecond, Ladders: watchdog.Ladders{Idle: rungs}}
		test(b, b.attach())
	})
}

func TestTry(t *testing.T) {
	t.Run("each attempt at a call that hangs begins when the directive is given", func(t *testing.T) {
		inLadder(t, func(b *fixture, wd *watchdog.Watchdog) {
			var began []time.Duration
			var asked []watchdog.DirectiveKind
			begun := time.Now()
			var err error
			for again := (*watchdog.Directive)(nil); ; {
				err = wd.Try(wd.Context(), func(ctx context.Context) error {
					began = append(began, time.Since(begun).Truncate(time.Millisecond))
					return hangs(ctx)
				})
				if !errors.As(err, &again) {
					break
				}
				require.ErrorIs(b.t, err, context.Canceled)
				asked = append(asked, again.Kind)
				again = nil
			}
			require.ErrorIs(b.t, err, watchdog.IdleExceeded)
			require.Equal(b.t, []time.Duration{0, 300 * time.Millisecond, 600 * time.Millisecond}, began)
			require.Equal(b.t, []watchdog.DirectiveKind{retry, unstuck}, asked)
			require.Equal(b.t, 900*time.Millisecond, time.Since(begun).Truncate(time.Millisecond))
			require.ErrorIs(b.t, wd.Try(b.t.Context(), hangs), watchdog.ErrEnded)
		}, retry, unstuck)
	})
	t.Run("WAIT ends none, nor does a directive that came before", func(t *testing.T) {
		inLadder(t, func(b *fixture, wd *watchdog.Watchdog) {
			time.Sleep(350 * time.Millisecond)
			synctest.Wait()
			require.NoError(b.t, wd.Try(b.t.Context(), func(ctx context.Context) error {
				time.Sleep(290 * time.Millisecond)
				require.NoError(b.t, ctx.Err())
				wd.Activity()
				time.Sleep(299 * time.Millisecond)
				return ctx.Err()
			}))
		}, retry, waiting, retry)
	})
	t.Run("several at once end together, under contexts of the run", func(t *testing.T) {
		inLadder(t, func(b *fixture, wd *watchdog.Watchdog) {
			failed, runs := make(chan error, 3), make(chan *watchdog.Watchdog, 3)
			for range cap(failed) {
				go func() {
					failed <- wd.Try(context.Background(), func(ctx context.Context) error {
						runs <- watchdog.FromContext(ctx)
						return hangs(ctx)
					})
				}()
			}
			for range cap(failed) {
				var directive *watchdog.Directive
				require.ErrorAs(b.t, <-failed, &directive)
				require.Same(b.t, wd, <-runs)
				require.Equal(b.t, watchdog.IdleExceeded, directive.Reason)
				require.Equal(b.t, "s-1", directive.RunID)
				require.NotErrorIs(b.t, directive, watchdog.IdleExceeded, "the run was not stopped")
			}
		}, retry)
	})
	t.Run("it ends with the caller's context, with the run, and returns what the work returned", func(t *testing.T) {
		inLadder(t, func(b *fixture, wd *watchdog.Watchdog) {
			ctx, stop := context.WithCancelCause(b.t.Context())
			stop(errHostGone)
			require.ErrorIs(b.t, wd.Try(ctx, hangs), errHostGone)
			require.ErrorIs(b.t, wd.Try(b.t.Context(), func(context.Context) error { return errDiskFull }), errDiskFull)
			require.NoError(b.t, wd.Try(b.t.Context(), func(ctx context.Context) error { _ = hangs(ctx); return nil }))
			require.ErrorIs(b.t, wd.Try(b.t.Context(), hangs), watchdog.IdleExceeded)
		}, retry)
	})
	t.Run("a store that is away is not asked for each work", func(t *testing.T) {
		inLadder(t, func(b *fixture, wd *watchdog.Watchdog) {
			b.store.set(func(s *flakyStore) { s.fail = errDiskFull })
			_, err := wd.Hold(b.t.Context(), "build", watchdog.HoldLimit{Cap: time.Minute, PausesWallClock: true})
			require.NoError(b.t, err)
			synctest.Wait()
			asked := b.store.appends
			require.Positive(b.t, asked)
			for range 3 {
				require.NoError(b.t, wd.Try(b.t.Context(), func(context.Context) error { return nil }))
				synctest.Wait()
			}
			require.Equal(b.t, asked, b.store.appends)
		})
	})
	t.Run("work that panics leaves nothing behind", func(t *testing.T) {
		inLadder(t, func(b *fixture, wd *watchdog.Watchdog) {
			require.Panics(b.t, func() { _ = wd.Try(b.t.Context(), func(context.Context) error { panic("work") }) })
			require.NoError(b.t, wd.Try(b.t.Context(), func(context.Context) error { return nil }))
		}, retry)
	})
	t.Run("work that has ended is forgotten, in whatever order it ends", func(t *testing.T) {
		for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {1, 2, 0}} {
			inLadder(t, func(b *fixture, wd *watchdog.Watchdog) {
				var left []weak.Pointer[[64]byte]
				var ends []chan struct{}
				for range order {
					of, end := new([64]byte), make(chan struct{})
					left, ends = append(left, weak.Make(of)), append(ends, end)
					go func() {
						_ = wd.Try(context.WithValue(b.t.Context(), tried{}, of), func(context.Context) error { <-end; return nil })
					}()
					synctest.Wait()
				}
				for _, which := range order {
					close(ends[which])
					synctest.Wait()
					for range 3 {
						runtime.GC()
					}
					require.Nil(b.t, left[which].Value())
				}
				runtime.KeepAlive(wd)
			}, retry)
		}
	})
	t.Run("a store that hangs does not keep the work going", func(t *testing.T) {
		inLadder(t, func(b *fixture, wd *watchdog.Watchdog) {
			hang := make(chan struct{})
			b.store.set(func(s *flakyStore) { s.hang = hang })
			begun := time.Now()
			require.Error(b.t, wd.Try(b.t.Context(), hangs))
			require.Equal(b.t, 300*time.Millisecond, time.Since(begun).Truncate(time.Millisecond))
			close(hang)
		}, retry)
	})
	t.Run("without a run it is the work", func(t *testing.T) {
		require.Equal(t, errDiskFull, (*watchdog.Watchdog)(nil).Try(t.Context(), func(context.Context) error { return errDiskFull }))
	})
}

func TestWrapUp(t *testing.T) {
	budget := watchdog.Budget{WallClock: time.Hour, Reserve: 10 * time.Minute, WarnAt: []float64{0.5, 0.9}}
	directives := func(b *fixture, wd *watchdog.Watchdog) (kinds []watchdog.DirectiveKind) {
		for d, ok := wd.Poll(); ok; d, ok = wd.Poll() {
			kinds = append(kinds, d.Kind)
			require.Equal(b.t, watchdog.WallClockExceeded, d.Reason)
		}
		return kinds
	}
	runFixture(t, "comes at the reserve, once a window, and then the reserve may be used", func(b *fixture) {
		b.cfg.Budget = budget
		var warnings []watchdog.Warning
		b.cfg.OnWarning = func(w watchdog.Warning) { warnings = append(warnings, w) }
		wd := b.attach()
		b.pass(50*time.Minute - 1)
		require.Empty(b.t, directives(b, wd))
		require.EqualValues(b.t, 1, wd.Remaining())
		b.pass(1)
		require.Equal(b.t, 10*time.Minute, wd.Remaining())
		require.Equal(b.t, []watchdog.DirectiveKind{watchdog.DirectiveWrapUp}, directives(b, wd))
		require.NoError(b.t, wd.Close())
		wd = b.attach()
		require.Empty(b.t, directives(b, wd), "not again after a restart")
		require.Equal(b.t, 10*time.Minute, wd.Remaining())
		b.pass(4 * time.Minute)
		require.Len(b.t, b.events(watchdog.EventWrapUp), 1)
		require.Equal(b.t, 20*time.Minute, warnings[0].Remaining, "less the reserve")
		require.Equal(b.t, 6*time.Minute, warnings[1].Remaining, "with it")
		b.pass(6*time.Minute + 1)
		require.Equal(b.t, []watchdog.DirectiveKind{watchdog.DirectiveCancel}, directives(b, wd))
	})
	runFixture(t, "and again after an extension", func(b *fixture) {
		b.cfg.Budget = budget
		wd := b.attach()
		b.pass(50 * time.Minute)
		require.NoError(b.t, wd.Extend(time.Hour))
		require.Equal(b.t, time.Hour, wd.Remaining())
		b.pass(time.Hour)
		require.Len(b.t, b.events(watchdog.EventWrapUp), 2)
		require.Len(b.t, directives(b, wd), 2)
		b.live(b.attach())
		require.Len(b.t, b.events(watchdog.EventWrapUp), 2)
	})
	runFixture(t, "is never written in a ladder, nor given without a reserve", func(b *fixture) {
		bad := watchdog.Budget{Idle: time.Minute}
		bad.Ladders.Idle = []watchdog.DirectiveKind{watchdog.DirectiveWrapUp}
		require.ErrorContains(b.t, bad.Validate(), "comes by itself")
		wd := b.attach()
		b.pass(watchdog.DefaultWallClock)
		require.Empty(b.t, directives(b, wd))
		require.Empty(b.t, b.events(watchdog.EventWrapUp))
	})
}
