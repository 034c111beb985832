package watchdog_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
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

// runDo is inDo for one case of a test.
func runDo(t *testing.T, name string, test func(g *doing)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inDo(t, test) })
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
	all, err := g.store.Memory.Read(context.Background(), event.AggregateType, g.run.ID)
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
	runDo(t, "nil of a loop that returned nil, and the run is complete", func(g *doing) {
		var attached *watchdog.Watchdog
		require.NoError(g, g.do(func(ctx context.Context, wd *watchdog.Watchdog) error {
			attached = wd
			require.Equal(g, wd.Context(), ctx)
			require.Same(g, wd, watchdog.FromContext(ctx))
			require.Equal(g, "s-1", wd.ID())
			return nil
		}))
		require.Equal(g, []string{event.Complete}, g.kinds())
		require.ErrorIs(g, context.Cause(attached.Context()), watchdog.ErrComplete)
		require.ErrorIs(g, g.do(g.notCalled), watchdog.ErrComplete)
	})
	runDo(t, "nil of a loop that said itself that the run is complete", func(g *doing) {
		require.NoError(g, g.do(func(_ context.Context, wd *watchdog.Watchdog) error { return wd.Complete() }))
		require.Equal(g, []string{event.Complete}, g.kinds())
	})
	runDo(t, "the loop's own error, alone, and the run goes on", func(g *doing) {
		var attached *watchdog.Watchdog
		err := g.do(func(_ context.Context, wd *watchdog.Watchdog) error { attached = wd; return errLoop })
		require.Same(g, errLoop, err)
		require.ErrorIs(g, context.Cause(attached.Context()), watchdog.ErrClosed)
		require.Empty(g, g.kinds())
		g.goesOn()
	})
	runDo(t, "the loop's own error of a run that it completed itself", func(g *doing) {
		err := g.do(func(_ context.Context, wd *watchdog.Watchdog) error {
			require.NoError(g, wd.Complete())
			return errLoop
		})
		require.Same(g, errLoop, err)
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
		runDo(t, "a loop that returns "+name, func(g *doing) {
			err := g.do(c.work)
			stop := g.stop(err)
			require.Equal(g, watchdog.WallClockExceeded, stop.Code)
			require.ErrorIs(g, err, context.DeadlineExceeded)
			require.Equal(g, c.alone, err == error(stop)) //nolint:errorlint // this very error
			require.ErrorContains(g, err, c.says)
			require.Contains(g, g.kinds(), event.Cancel)
			require.NotContains(g, g.kinds(), event.Complete)
			again := g.stop(g.do(g.notCalled))
			require.Equal(g, stop.EventID(), again.EventID(), "a run that is stopped is not begun again")
		})
	}
	runDo(t, "by another guard", func(g *doing) {
		err := g.do(func(_ context.Context, wd *watchdog.Watchdog) error {
			_, err := wd.Cancel(watchdog.Cancellation{Reason: "approval_denied"})
			return err
		})
		require.EqualValues(g, "approval_denied", g.stop(err).Code)
		require.NotErrorIs(g, err, context.DeadlineExceeded)
	})
	runDo(t, "before the loop, because the budget was used up", func(g *doing) {
		time.Sleep(2 * time.Hour)
		g.stop(g.do(g.notCalled))
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
	runDo(t, "is waited for: the loop is not left behind", func(g *doing) {
		began := time.Now()
		g.stop(g.do(func(context.Context, *watchdog.Watchdog) error { time.Sleep(5 * time.Hour); return nil }))
		require.Equal(g, 5*time.Hour, time.Since(began))
	})
	runDo(t, "not, when it is only a layer that is stopped", func(g *doing) {
		err := g.do(func(_ context.Context, wd *watchdog.Watchdog) error {
			layer := openLayer(g.T, wd, "test", watchdog.Budget{Idle: time.Minute})
			<-layer.Context().Done()
			return context.Cause(layer.Context())
		})
		var stop *watchdog.Stop
		require.ErrorAs(g, err, &stop)
		require.Equal(g, "s-1/test", stop.RunID)
		g.goesOn()
	})
}

func TestDoNotBegun(t *testing.T) {
	runDo(t, "without a loop", func(g *doing) {
		err := g.do(nil)
		require.ErrorIs(g, err, watchdog.ErrInvalid)
		require.ErrorContains(g, err, "loop")
		require.Zero(g, g.store.appends)
	})
	runDo(t, "with a parent that has ended", func(g *doing) {
		parent, end := context.WithCancelCause(context.Background())
		end(errHostGone)
		err := watchdog.Do(parent, g.run, g.cfg, g.notCalled)
		require.ErrorIs(g, err, watchdog.ErrParentEnded)
		require.ErrorIs(g, err, errHostGone)
	})
}

func TestDoModes(t *testing.T) {
	runDo(t, "only observed: nothing ends the loop, and the run is complete", func(g *doing) {
		g.cfg.ObserveOnly = true
		require.NoError(g, g.do(func(ctx context.Context, _ *watchdog.Watchdog) error {
			time.Sleep(5 * time.Hour)
			return ctx.Err()
		}))
		require.Contains(g, g.kinds(), event.Complete)
	})
	runDo(t, "disabled: nothing is recorded", func(g *doing) {
		g.cfg.Disabled = true
		require.NoError(g, g.do(func(ctx context.Context, _ *watchdog.Watchdog) error {
			time.Sleep(5 * time.Hour)
			return ctx.Err()
		}))
		require.Same(g, errLoop, g.do(returning(errLoop)))
		require.Zero(g, g.store.appends)
	})
	runSynced(t, "without a store: nothing has to be said of the run", func(t *testing.T) {
		require.NoError(t, watchdog.Do(t.Context(), watchdog.Run{}, watchdog.Config{}, returning(nil)))
		err := watchdog.Do(t.Context(), watchdog.Run{}, watchdog.Config{Logger: quiet}, untilEnd)
		require.ErrorIs(t, err, watchdog.WallClockExceeded)
	})
}

func TestDoEnded(t *testing.T) {
	runDo(t, "by its parent: the cause, which is no stop", func(g *doing) {
		for _, c := range []struct {
			work mainLoop
			want error
		}{
			{untilEnd, errHostGone}, {returning(errLoop), errLoop}, {returning(nil), watchdog.ErrEnded},
		} {
			parent, end := context.WithCancelCause(context.Background())
			err := watchdog.Do(parent, g.run, g.cfg, func(ctx context.Context, wd *watchdog.Watchdog) error {
				end(errHostGone)
				return c.work(ctx, wd)
			})
			require.ErrorIs(g, err, errHostGone)
			require.ErrorIs(g, err, c.want)
			require.NotErrorIs(g, err, context.DeadlineExceeded)
			require.NotErrorAs(g, err, new(*watchdog.Stop))
		}
		require.Empty(g, g.kinds())
		g.goesOn()
	})
	runDo(t, "by its parent's cancel: the context's error, once", func(g *doing) {
		parent, end := context.WithCancel(context.Background())
		time.AfterFunc(time.Minute, end)
		require.Equal(g, context.Canceled, watchdog.Do(parent, g.run, g.cfg, untilEnd))
	})
	runDo(t, "by an interrupt: that", func(g *doing) {
		err := g.do(func(ctx context.Context, wd *watchdog.Watchdog) error {
			require.NoError(g, wd.Interrupt("SIGINT"))
			return ctx.Err()
		})
		var by *watchdog.Interruption
		require.ErrorAs(g, err, &by)
		require.Equal(g, []string{event.Interrupt}, g.kinds())
	})
	runDo(t, "by a Close of the loop's own: it is not complete", func(g *doing) {
		err := g.do(func(_ context.Context, wd *watchdog.Watchdog) error { return wd.Close() })
		require.ErrorIs(g, err, watchdog.ErrClosed)
		require.ErrorIs(g, err, watchdog.ErrEnded)
		require.Empty(g, g.kinds())
	})
	t.Run("by another process that completed it: no error of a loop that has no other", func(t *testing.T) {
		for result, want := range map[error]error{nil: nil, context.Canceled: watchdog.ErrComplete, errLoop: errLoop} {
			inDo(t, func(g *doing) {
				err := g.do(func(_ context.Context, wd *watchdog.Watchdog) error {
					other, err := watchdog.New(context.Background(), g.run, g.cfg)
					require.NoError(t, err)
					require.NoError(t, other.Complete())
					require.NoError(t, other.Close())
					_, err = wd.Sync(context.Background())
					require.ErrorIs(t, err, watchdog.ErrComplete)
					return result
				})
				require.Equal(t, want, err)
			})
		}
	})
}

func TestDoStoreFails(t *testing.T) {
	down := func(s *flakyStore) { s.fail = errDiskFull }
	up := func(s *flakyStore) { s.fail = nil }
	runDo(t, "to record that the run is complete: it is not, and goes on", func(g *doing) {
		err := g.do(func(context.Context, *watchdog.Watchdog) error { g.store.set(down); return nil })
		require.ErrorIs(g, err, errDiskFull)
		require.ErrorContains(g, err, "complete run s-1")
		require.Equal(g, 1, g.store.appends)
		g.store.set(up)
		require.Empty(g, g.kinds())
		g.goesOn()
	})
	runDo(t, "to record the stop: Do has the stop and the error of Close", func(g *doing) {
		err := g.do(func(ctx context.Context, wd *watchdog.Watchdog) error {
			g.store.set(down)
			return untilEnd(ctx, wd)
		})
		g.stop(err)
		require.ErrorIs(g, err, errDiskFull)
		require.ErrorContains(g, err, "close watchdog of run s-1")
	})
	runDo(t, "for something else of a run that is complete: Do has the error of Close", func(g *doing) {
		g.cfg.Store = &hookedStore{EventStore: g.store, append: refusing(event.Warning)}
		err := g.do(func(context.Context, *watchdog.Watchdog) error { time.Sleep(50 * time.Minute); return nil })
		require.ErrorIs(g, err, errRefused)
		require.ErrorContains(g, err, "close watchdog of run s-1")
		require.ErrorIs(g, g.do(g.notCalled), watchdog.ErrComplete)
	})
}

func TestDoPanic(t *testing.T) {
	leaves := map[string]func(){
		"a panic":        func() { panic("canary-6b1d") },
		"runtime.Goexit": runtime.Goexit,
	}
	// leave has Do's loop leave so, and returns what passed through.
	leave := func(g *doing, work mainLoop) (recovered any) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() { recovered = recover() }()
			_ = g.do(work)
			g.Error("Do returned")
		}()
		<-done
		return recovered
	}
	for name, out := range leaves {
		runDo(t, name+" passes through, is recorded, and the run can go on", func(g *doing) {
			keeper := &fakeKeeper{}
			g.cfg.Keeper = keeper
			var attached *watchdog.Watchdog
			recovered := leave(g, func(_ context.Context, wd *watchdog.Watchdog) error {
				attached = wd
				out()
				return nil
			})
			require.Equal(g, name != "runtime.Goexit", recovered != nil)
			var by *watchdog.Interruption
			require.ErrorAs(g, context.Cause(attached.Context()), &by)
			require.Equal(g, "panic", by.By)
			require.Equal(g, []*watchdog.Watchdog{attached}, keeper.ended, "the row does not stay active")
			require.Equal(g, []string{event.Interrupt}, g.kinds())
			all, err := g.store.Memory.Read(g.Context(), event.AggregateType, "s-1")
			require.NoError(g, err)
			require.NotContains(g, string(all[0].Payload), "canary")
			g.goesOn()
		})
	}
	runDo(t, "is not recorded of a run that had ended", func(g *doing) {
		var log strings.Builder
		g.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		require.Equal(g, "gone", leave(g, func(ctx context.Context, _ *watchdog.Watchdog) error {
			<-ctx.Done()
			panic("gone")
		}))
		require.Equal(g, []string{event.Warning, event.Cancel}, g.kinds())
		synctest.Wait()
		require.NotContains(g, log.String(), "could not record")
	})
	runDo(t, "passes through when the store fails, and the log has that", func(g *doing) {
		var log strings.Builder
		g.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		require.Equal(g, "canary-6b1d", leave(g, func(context.Context, *watchdog.Watchdog) error {
			g.store.set(func(s *flakyStore) { s.fail = errDiskFull })
			panic("canary-6b1d")
		}))
		require.Contains(g, log.String(), "could not record that a loop panicked")
		require.Contains(g, log.String(), errDiskFull.Error())
		require.NotContains(g, log.String(), "canary")
	})
	runDo(t, "passes through when the log panics, too", func(g *doing) {
		g.cfg.Logger = slog.New(panickingHandler{})
		require.Equal(g, "first", leave(g, func(context.Context, *watchdog.Watchdog) error {
			g.store.set(func(s *flakyStore) { s.fail = errDiskFull })
			panic("first")
		}))
	})
}

// TestDoMethod checks the loop of a run that was not attached to by Do.
func TestDoMethod(t *testing.T) {
	stopped := func(g *doing) {
		g.stop(g.do(func(ctx context.Context, _ *watchdog.Watchdog) error {
			time.Sleep(time.Hour + 1)
			return ctx.Err()
		}))
	}
	runDo(t, "a run that was stopped goes on after a resume, and is complete then", func(g *doing) {
		stopped(g)
		wd, err := watchdog.Resume(context.Background(), g.run, g.cfg)
		require.NoError(g, err)
		require.NoError(g, wd.Do(func(ctx context.Context, own *watchdog.Watchdog) error {
			require.Same(g, wd, own)
			require.Greater(g, own.Remaining(), time.Hour-time.Second, "a fresh window")
			time.Sleep(time.Second)
			return ctx.Err()
		}))
		require.Equal(g, []string{
			event.Warning, event.Cancel, event.Resume, event.Complete,
		}, g.kinds())
		require.ErrorIs(g, wd.Do(g.notCalled), watchdog.ErrComplete)
	})
	runDo(t, "a layer is complete when its loop returns nil, and the run goes on", func(g *doing) {
		require.NoError(g, g.do(func(_ context.Context, wd *watchdog.Watchdog) error {
			layer := openLayer(g.T, wd, "plan", watchdog.Budget{})
			require.NoError(g, layer.Do(returning(nil)))
			require.ErrorIs(g, context.Cause(layer.Context()), watchdog.ErrComplete)
			return wd.Context().Err()
		}))
	})
	runDo(t, "a run that has ended otherwise says how, and has no loop", func(g *doing) {
		for cause, end := range map[error]func(wd *watchdog.Watchdog) error{
			watchdog.ErrClosed:   (*watchdog.Watchdog).Close,
			watchdog.ErrComplete: (*watchdog.Watchdog).Complete,
		} {
			wd, err := watchdog.New(context.Background(), g.run, g.cfg)
			require.NoError(g, err)
			require.NoError(g, end(wd))
			err = wd.Do(g.notCalled)
			require.ErrorIs(g, err, watchdog.ErrEnded)
			require.ErrorIs(g, err, cause)
			g.run.ID += "x"
		}
	})
	runDo(t, "without a loop it is closed, with an error", func(g *doing) {
		wd, err := watchdog.New(context.Background(), g.run, g.cfg)
		require.NoError(g, err)
		require.ErrorIs(g, wd.Do(nil), watchdog.ErrInvalid)
		require.Equal(g, watchdog.ErrClosed, context.Cause(wd.Context()))
	})
	t.Run("without a run there is an error", func(t *testing.T) {
		require.ErrorIs(t, watchdog.FromContext(t.Context()).Do(returning(nil)), watchdog.ErrEnded)
	})
}

// TestStopOf tells the end of a run from that of a tool in it, which its loop returned.
func TestStopOf(t *testing.T) {
	runFixture(t, "a tool's stop is not the run's", func(b *fixture) {
		var tool *watchdog.Stop
		err := watchdog.Do(context.Background(), b.run, b.cfg, func(_ context.Context, wd *watchdog.Watchdog) error {
			layer, err := wd.Layer("tool", watchdog.Budget{WallClock: time.Minute})
			require.NoError(b.t, err)
			err = layer.Do(func(context.Context, *watchdog.Watchdog) error {
				b.pass(2 * time.Minute)
				return nil
			})
			tool = watchdog.StopOf(err, "s-1/tool")
			return fmt.Errorf("the tool: %w", err)
		})
		require.Equal(b.t, watchdog.WallClockExceeded, tool.Code)
		require.ErrorIs(b.t, err, tool)
		require.Nil(b.t, watchdog.StopOf(err, b.run.ID))
		require.Same(b.t, tool, watchdog.StopOf(err, "s-1/tool"))
		require.Empty(b.t, b.events(event.Cancel), "the run can be attached to again")
		require.NoError(b.t, b.attach().Close())
	})
	runFixture(t, "nor does it hide the run's", func(b *fixture) {
		err := watchdog.Do(context.Background(), b.run, b.cfg, func(context.Context, *watchdog.Watchdog) error {
			b.pass(5 * time.Hour)
			return &watchdog.Stop{RunID: "s-1/tool", Code: watchdog.IdleExceeded}
		})
		require.Equal(b.t, watchdog.WallClockExceeded, watchdog.StopOf(err, b.run.ID).Code)
		require.Equal(b.t, watchdog.IdleExceeded, watchdog.StopOf(err, "s-1/tool").Code)
	})
	require.Nil(t, watchdog.StopOf(nil, ""))
	require.Nil(t, watchdog.StopOf(errors.Join(errDiskFull, errLoop), "s-1"))
}

// TestLoopThatStays protects the host of a loop that ignores its context from silence.
func TestLoopThatStays(t *testing.T) {
	stays := func(b *fixture, after time.Duration) string {
		log := b.logged()
		err := watchdog.Do(context.Background(), b.run, b.cfg, func(context.Context, *watchdog.Watchdog) error {
			b.pass(over)
			b.pass(after)
			return nil
		})
		require.Error(b.t, err)
		b.pass(time.Hour)
		return log.String()
	}
	runFixture(t, "the log says so half a minute after the end, once, and what to look for", func(b *fixture) {
		log := stays(b, 10*time.Minute)
		require.Equal(b.t, 1, strings.Count(log, "does not return"))
		require.Regexp(b.t, `level=WARN msg="the loop of a run that has ended does not return: look for .*" run=s-1 `+
			`ended=30s cause="run s-1 stopped: watchdog_wall_clock_exceeded`, log)
	})
	runFixture(t, "not of one that returns in time", func(b *fixture) {
		require.NotContains(b.t, stays(b, 30*time.Second-1), "does not return")
	})
	runFixture(t, "nor where nothing is done by itself", func(b *fixture) {
		b.cfg.PollOnly = true
		require.NotContains(b.t, stays(b, time.Hour), "does not return")
	})
}

// TestLoggedStop expects the numbers that decided in the log.
func TestLoggedStop(t *testing.T) {
	runFixture(t, "of a counted limit", func(b *fixture) {
		log := b.logged()
		b.cfg.Budget.Spend = watchdog.Spend{Turns: 2}
		wd := b.attach()
		for range 3 {
			if c, err := wd.Admit(context.Background(), "", watchdog.Amount{Turns: 1}); err == nil {
				require.NoError(b.t, c.Settle(watchdog.Amount{Turns: 1}))
			}
		}
		_, fired := wd.Fired()
		require.True(b.t, fired)
		b.pass(time.Second)
		require.Regexp(b.t, `msg="watchdog stopped a run" run=s-1 reason=watchdog_turns_exceeded elapsed=\S+ used=2 admitted=0 `+
			`needed=1 allowed=2\n`, log.String())
	})
}

// TestDuringWithoutKey runs the same tool twice at once.
func TestDuringWithoutKey(t *testing.T) {
	runFixture(t, "each draws one", func(b *fixture) {
		wd, inside := b.attach(), 0
		tool := func(work func(context.Context) error) error {
			return wd.During(context.Background(), "", watchdog.HoldLimit{Cap: time.Hour}, work)
		}
		require.NoError(b.t, tool(func(context.Context) error {
			return tool(func(context.Context) error { inside++; return nil })
		}))
		require.Equal(b.t, 1, inside)
		_, err := wd.Hold(context.Background(), "", watchdog.HoldLimit{})
		require.ErrorIs(b.t, err, watchdog.ErrInvalid)
	})
}
