package watchdog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// errLoop is what a loop returns that failed.
var errLoop = errors.New("the model refused")

// A mainLoop is a host's main loop.
type mainLoop = func(ctx context.Context, wd *watchdog.Watchdog) error

// A doing is a run for Do in a bubble, with a wall clock of an hour.
type doing struct {
	*testing.T
	store *flakyStore
	run   watchdog.Run
	cfg   watchdog.Config
}

func inDo(t *testing.T, test func(g *doing)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := &doing{T: t, store: &flakyStore{}, run: watchdog.Run{ID: "s-1", StartedAt: time.Now()}}
		g.cfg = watchdog.Config{Store: g.store, Budget: watchdog.Budget{WallClock: time.Hour}, Logger: quiet}
		test(g)
	})
}

func (g *doing) do(work mainLoop) error {
	g.Helper()
	return watchdog.Do(context.Background(), g.run, g.cfg, work)
}

// notCalled is the loop of a run that must not begin.
func (g *doing) notCalled(context.Context, *watchdog.Watchdog) error {
	g.Error("the loop was called")
	return nil
}

// stop requires that the error is the run's stop and has it once.
func (g *doing) stop(err error) *watchdog.Stop {
	g.Helper()
	var stop *watchdog.Stop
	require.ErrorAs(g, err, &stop)
	require.Equal(g, g.run.ID, stop.RunID)
	require.Equal(g, 1, strings.Count(err.Error(), stop.Error()), "%v", err)
	return stop
}

// kinds returns the kinds of the run's events.
func (g *doing) kinds() (kinds []string) {
	g.Helper()
	all, err := g.store.Memory.Read(context.Background(), watchdog.AggregateType, g.run.ID)
	require.NoError(g, err)
	for _, e := range all {
		kinds = append(kinds, e.Type)
	}
	return kinds
}

// goesOn requires that the run can be attached to again.
func (g *doing) goesOn() {
	g.Helper()
	wd, err := watchdog.New(context.Background(), g.run, g.cfg)
	require.NoError(g, err)
	require.Nil(g, wd.Stop())
	require.NoError(g, wd.Close())
}

// untilEnd is a loop that ends with its context, with that error.
func untilEnd(ctx context.Context, _ *watchdog.Watchdog) error {
	<-ctx.Done()
	return ctx.Err()
}

func returning(err error) mainLoop {
	return func(context.Context, *watchdog.Watchdog) error { return err }
}

func TestDoReturns(t *testing.T) {
	t.Run("nil of a loop that returned nil, and the run is complete", func(t *testing.T) {
		inDo(t, func(g *doing) {
			var attached *watchdog.Watchdog
			require.NoError(t, g.do(func(ctx context.Context, wd *watchdog.Watchdog) error {
				attached = wd
				require.Equal(t, wd.Context(), ctx)
				require.Same(t, wd, watchdog.FromContext(ctx))
				require.Equal(t, "s-1", wd.ID())
				return nil
			}))
			require.Equal(t, []string{watchdog.EventComplete}, g.kinds())
			require.ErrorIs(t, context.Cause(attached.Context()), watchdog.ErrComplete)
			require.ErrorIs(t, g.do(g.notCalled), watchdog.ErrComplete)
		})
	})
	t.Run("nil of a loop that said itself that the run is complete", func(t *testing.T) {
		inDo(t, func(g *doing) {
			require.NoError(t, g.do(func(_ context.Context, wd *watchdog.Watchdog) error { return wd.Complete() }))
			require.Equal(t, []string{watchdog.EventComplete}, g.kinds())
		})
	})
	t.Run("the loop's own error, alone, and the run goes on", func(t *testing.T) {
		inDo(t, func(g *doing) {
			var attached *watchdog.Watchdog
			err := g.do(func(_ context.Context, wd *watchdog.Watchdog) error { attached = wd; return errLoop })
			require.Same(t, errLoop, err)
			require.ErrorIs(t, context.Cause(attached.Context()), watchdog.ErrClosed)
			require.Empty(t, g.kinds())
			g.goesOn()
		})
	})
	t.Run("the loop's own error of a run that it completed itself", func(t *testing.T) {
		inDo(t, func(g *doing) {
			err := g.do(func(_ context.Context, wd *watchdog.Watchdog) error {
				require.NoError(t, wd.Complete())
				return errLoop
			})
			require.Same(t, errLoop, err)
		})
	})
}

func TestDoStopped(t *testing.T) {
	boom := func(work mainLoop) mainLoop {
		return func(ctx context.Context, wd *watchdog.Watchdog) error {
			return fmt.Errorf("phase 1: %w", work(ctx, wd))
		}
	}
	cause := func(ctx context.Context, _ *watchdog.Watchdog) error { <-ctx.Done(); return context.Cause(ctx) }
	for name, c := range map[string]struct {
		work  mainLoop
		alone bool   // the error is the stop itself
		says  string // beside the stop
	}{
		"nil":                        {func(ctx context.Context, _ *watchdog.Watchdog) error { <-ctx.Done(); return nil }, true, ""},
		"the context's error":        {untilEnd, true, ""},
		"the context's cause":        {cause, true, ""},
		"an error that wraps that":   {boom(cause), false, "phase 1: "},
		"the context's error in one": {boom(untilEnd), false, "phase 1: context canceled"},
		"an error of its own": {func(ctx context.Context, _ *watchdog.Watchdog) error {
			<-ctx.Done()
			return errLoop
		}, false, errLoop.Error()},
		"an error beside the cause": {func(ctx context.Context, _ *watchdog.Watchdog) error {
			<-ctx.Done()
			return errors.Join(errLoop, context.Cause(ctx))
		}, false, errLoop.Error()},
	} {
		t.Run("a loop that returns "+name, func(t *testing.T) {
			inDo(t, func(g *doing) {
				err := g.do(c.work)
				stop := g.stop(err)
				require.Equal(t, watchdog.WallClockExceeded, stop.Code)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Equal(t, c.alone, err == error(stop)) //nolint:errorlint // this very error
				require.ErrorContains(t, err, c.says)
				require.Contains(t, g.kinds(), watchdog.EventCancel)
				require.NotContains(t, g.kinds(), watchdog.EventComplete)
				again := g.stop(g.do(g.notCalled))
				require.Equal(t, stop.EventID(), again.EventID(), "a run that is stopped is not begun again")
			})
		})
	}
	t.Run("by another guard", func(t *testing.T) {
		inDo(t, func(g *doing) {
			err := g.do(func(_ context.Context, wd *watchdog.Watchdog) error {
				_, err := wd.Cancel(watchdog.Cancellation{Reason: "approval_denied"})
				return err
			})
			require.EqualValues(t, "approval_denied", g.stop(err).Code)
			require.NotErrorIs(t, err, context.DeadlineExceeded)
		})
	})
	t.Run("before the loop, because the budget was used up", func(t *testing.T) {
		inDo(t, func(g *doing) {
			time.Sleep(2 * time.Hour)
			g.stop(g.do(g.notCalled))
		})
	})
	t.Run("after the loop, which was late and did not look", func(t *testing.T) {
		for _, result := range []error{nil, errLoop} {
			inDo(t, func(g *doing) {
				g.cfg.PollOnly = true
				err := g.do(func(ctx context.Context, _ *watchdog.Watchdog) error {
					time.Sleep(time.Hour + 1)
					require.NoError(t, ctx.Err())
					return result
				})
				g.stop(err)
				if result != nil {
					require.ErrorIs(t, err, result)
				}
			})
		}
	})
	t.Run("is waited for: the loop is not left behind", func(t *testing.T) {
		inDo(t, func(g *doing) {
			began := time.Now()
			g.stop(g.do(func(context.Context, *watchdog.Watchdog) error { time.Sleep(5 * time.Hour); return nil }))
			require.Equal(t, 5*time.Hour, time.Since(began))
		})
	})
	t.Run("not, when it is only a layer that is stopped", func(t *testing.T) {
		inDo(t, func(g *doing) {
			err := g.do(func(_ context.Context, wd *watchdog.Watchdog) error {
				layer, err := wd.Layer("test", watchdog.Budget{Idle: time.Minute})
				require.NoError(t, err)
				defer layer.Close()
				<-layer.Context().Done()
				return context.Cause(layer.Context())
			})
			var stop *watchdog.Stop
			require.ErrorAs(t, err, &stop)
			require.Equal(t, "s-1/test", stop.RunID)
			g.goesOn()
		})
	})
}

func TestDoNotBegun(t *testing.T) {
	t.Run("without a loop", func(t *testing.T) {
		inDo(t, func(g *doing) {
			err := g.do(nil)
			require.ErrorIs(t, err, watchdog.ErrInvalid)
			require.ErrorContains(t, err, "loop")
			require.Zero(t, g.store.appends)
		})
	})
	t.Run("with a parent that has ended", func(t *testing.T) {
		inDo(t, func(g *doing) {
			parent, end := context.WithCancelCause(context.Background())
			end(errHostGone)
			err := watchdog.Do(parent, g.run, g.cfg, g.notCalled)
			require.ErrorIs(t, err, watchdog.ErrParentEnded)
			require.ErrorIs(t, err, errHostGone)
		})
	})
}

func TestDoModes(t *testing.T) {
	t.Run("only observed: nothing ends the loop, and the run is complete", func(t *testing.T) {
		inDo(t, func(g *doing) {
			g.cfg.ObserveOnly = true
			require.NoError(t, g.do(func(ctx context.Context, _ *watchdog.Watchdog) error {
				time.Sleep(5 * time.Hour)
				return ctx.Err()
			}))
			require.Contains(t, g.kinds(), watchdog.EventComplete)
		})
	})
	t.Run("disabled: nothing is recorded", func(t *testing.T) {
		inDo(t, func(g *doing) {
			g.cfg.Disabled = true
			require.NoError(t, g.do(func(ctx context.Context, _ *watchdog.Watchdog) error {
				time.Sleep(5 * time.Hour)
				return ctx.Err()
			}))
			require.Same(t, errLoop, g.do(returning(errLoop)))
			require.Zero(t, g.store.appends)
		})
	})
	t.Run("without a store: nothing has to be said of the run", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			require.NoError(t, watchdog.Do(t.Context(), watchdog.Run{}, watchdog.Config{}, returning(nil)))
			err := watchdog.Do(t.Context(), watchdog.Run{}, watchdog.Config{Logger: quiet}, untilEnd)
			require.ErrorIs(t, err, watchdog.WallClockExceeded)
		})
	})
}
