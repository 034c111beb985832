package watchdog_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/idle"
	"github.com/seed62658d38/watchdog/internal/handle"
)

func TestHold(t *testing.T) {
	cfg := watchdog.Config{Budget: watchdog.Budget{Idle: 10 * minute, NoProgress: 20 * minute}}
	runBubble(t, "it closes exactly once, also by its context", cfg, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
		ctx, cancel := context.WithCancel(context.Background())
		h, err := wd.Hold(ctx, "tool", watchdog.HoldLimit{})
		require.NoError(t, err)
		cancel()
		synctest.Wait()
		require.False(t, h.Close())
		again, err := wd.Hold(context.Background(), "tool", watchdog.HoldLimit{})
		require.NoError(t, err, "its key is free")
		require.False(t, h.Close(), "and the old one does not close the new")
		after(time.Hour)
		requireRunning(t, wd)
		require.True(t, again.Close())
		require.False(t, again.Close())
	})
	runBubble(t, "keys and caps that make no sense are refused", cfg, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
		for _, key := range []string{"", "a\nb", strings.Repeat("x", 256)} {
			_, err := wd.Hold(context.Background(), key, watchdog.HoldLimit{})
			require.ErrorIs(t, err, watchdog.ErrInvalid)
		}
		for says, limit := range map[string]watchdog.HoldLimit{"Cap": {Cap: -1}, "Idle is -1ns": {Idle: -1}} {
			_, err := wd.Hold(context.Background(), "tool", limit)
			require.ErrorIs(t, err, watchdog.ErrInvalid)
			require.ErrorContains(t, err, says)
		}
	})
}

func TestDuring(t *testing.T) {
	cfg := watchdog.Config{Budget: watchdog.Budget{Idle: 10 * minute}}
	t.Run("a hold does not outlive its scope, left by a return or a panic", func(t *testing.T) {
		errTool := errors.New("tool failed")
		inBubble(t, cfg, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
			work := func(context.Context) error { after(time.Hour); return errTool }
			require.ErrorIs(t, wd.During(wd.Context(), "tool", watchdog.HoldLimit{}, work), errTool)
			require.Panics(t, func() {
				wd.During(wd.Context(), "tool", watchdog.HoldLimit{}, func(context.Context) error { panic("tool") })
			})
			requireRunning(t, wd)
			after(10*minute + 1)
			requireStop(t, wd, watchdog.IdleExceeded)
		})
	})
	runBubble(t, "work whose hold is refused is not begun", cfg, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
		require.NoError(t, wd.Close())
		err := wd.During(context.Background(), "tool", watchdog.HoldLimit{}, func(context.Context) error { panic("begun") })
		require.ErrorIs(t, err, watchdog.ErrEnded)
	})
}

var noCap = watchdog.HoldLimit{Cap: watchdog.NoLimit}

// TestHoldEndsWithLayer has a layer closed while a hold is opened in it.
func TestHoldEndsWithLayer(t *testing.T) {
	session := watchdog.Config{Budget: watchdog.Budget{WallClock: watchdog.NoLimit, Idle: 20 * minute}}
	for range 200 {
		inBubble(t, session, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
			step := openLayer(t, wd, "build", watchdog.Budget{})
			go step.Close()
			_, _ = step.Hold(wd.Context(), "tool", noCap)
			after(minute)
			require.Equal(t, minute, wd.SinceActivity(), "the run is held")
		})
	}
}

// openIdle opens a hold that limits the silence.
func openIdle(t *testing.T, wd *watchdog.Watchdog, key string, idle time.Duration) *watchdog.Hold {
	t.Helper()
	h := openHold(t, wd, key, watchdog.HoldLimit{Cap: watchdog.NoLimit, Idle: idle})
	return h
}

func TestHoldIdle(t *testing.T) {
	endless := watchdog.Config{Budget: watchdog.Budget{WallClock: watchdog.NoLimit}}
	runBubble(t, "a sub-agent that streams lives until the cap", endless, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
		openHold(t, wd, "agent", watchdog.HoldLimit{Cap: 2 * time.Hour, Idle: minute})
		const every = 20 * time.Millisecond
		for range 2 * time.Hour / every {
			time.Sleep(every)
			wd.Activity()
		}
		synctest.Wait()
		requireRunning(t, wd)
		after(1)
		require.Equal(t, "agent", requireStop(t, wd, watchdog.HoldExceeded).Hold)
	})
	runBubble(t, "one that is silent for more than its limit ends", endless, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
		openIdle(t, wd, "agent", minute)
		after(minute + 1)
		stop := requireStop(t, wd, watchdog.IdleExceeded)
		require.Equal(t, []any{"agent", minute}, []any{stop.Hold, stop.Budget})
		require.ErrorContains(t, stop, `in hold "agent"`)
	})
}

// TestInFlight has runs stand still for a command in a layer.
func TestInFlight(t *testing.T) {
	idle := watchdog.Config{Budget: watchdog.Budget{
		WallClock: watchdog.NoLimit, Idle: 20 * minute, NoProgress: 30 * minute, Hold: minute,
	}}
	runBubble(t, "until it ends, whatever else is", idle, func(t *testing.T, wd *watchdog.Watchdog, store *flakyStore) {
		one, two := openLayer(t, wd, "build", watchdog.Budget{}), openLayer(t, wd, "test", watchdog.Budget{Idle: minute})
		for _, layer := range []*watchdog.Watchdog{one, two} {
			handle.Of(layer.Context()).StandStill()
		}
		after(2 * time.Hour)
		requireRunning(t, wd)
		require.NoError(t, one.Close())
		after(time.Hour)
		requireRunning(t, two)
		require.NoError(t, two.Close())
		after(20 * minute)
		requireRunning(t, wd)
		after(1)
		require.Empty(t, requireStop(t, wd, watchdog.IdleExceeded).Hold)
		events, err := store.Read(t.Context(), event.AggregateType, wd.ID())
		require.NoError(t, err)
		require.Len(t, events, 1, "only the cancel is recorded")
	})
	runBubble(t, "it may be as silent as the run around", idle, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
		allows := func(want time.Duration, heldToo bool) {
			t.Helper()
			allowed, held := handle.Of(wd.Context()).IdleNow()
			require.Equal(t, []any{want, heldToo}, []any{allowed, held})
		}
		allows(20*minute, false)
		handle.Of(openLayer(t, wd, "build", watchdog.Budget{}).Context()).StandStill()
		allows(20*minute, false)
		require.Zero(t, handle.Of(wd.Context()).State().Holds, "nobody opened one")
		tool := openIdle(t, wd, "tool", time.Hour)
		allows(time.Hour, true)
		approval := openHold(t, wd, "approval", noCap)
		allows(watchdog.NoLimit, true)
		require.True(t, approval.Close())
		require.True(t, tool.Close())
		allows(20*minute, false)
	})
	first := watchdog.Config{Budget: watchdog.Budget{
		WallClock: watchdog.NoLimit, Idle: minute, FromFirstSign: true, FirstSign: time.Hour,
	}}
	runBubble(t, "and before its first sign as long", first, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
		for _, want := range []time.Duration{time.Hour, minute} {
			allowed, _ := handle.Of(wd.Context()).IdleNow()
			require.Equal(t, want, allowed)
			wd.Activity()
		}
	})
}

// TestHoldIdleRace opens holds that limit the silence while others signal: signals count from the first of them on.
func TestHoldIdleRace(t *testing.T) {
	wd := guard(t, watchdog.Config{Store: &watchdog.Memory{}})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 100 {
				wd.Activity()
				wd.ProgressDigest("same")
				h, err := wd.Hold(context.Background(), fmt.Sprint(i), watchdog.HoldLimit{Idle: time.Hour})
				if err == nil {
					h.Close()
				}
				wd.SinceActivity()
			}
		})
	}
	all.Wait()
	require.NoError(t, wd.Context().Err())
	require.Less(t, wd.SinceActivity(), time.Hour)
}

// TestHoldClosedWhileRecording closes a hold while the run, whose wall clock is used up, asks the store: another
// process has given it more time.
func TestHoldClosedWhileRecording(t *testing.T) {
	for mode, pollOnly := range map[string]bool{"with a timer": false, "without one": true} {
		runFixture(t, mode, func(b *fixture) {
			operator := b.attach()
			store := &hookedStore{EventStore: b.store}
			b.cfg.Store, b.cfg.PollOnly, b.cfg.Budget.Idle = store, pollOnly, 10*minute
			wd := b.attach()
			hold := openHold(b.t, wd, "tool", noCap)
			require.NoError(b.t, operator.Extend(time.Hour))
			closed := false
			b.pass(4 * time.Hour)
			store.read = func() error {
				store.read = nil
				closed = hold.Close()
				return nil
			}
			b.pass(1)
			_, _ = wd.Fired()
			require.True(b.t, closed, "it did not wait, and closed the hold")
			require.False(b.t, hold.Close())
			b.live(wd)
			b.pass(10 * minute)
			b.live(wd)
			b.pass(1)
			require.True(b.t, hasFired(wd))
			requireStop(b.t, wd, watchdog.IdleExceeded)
		})
	}
}

func TestHoldLetsGoOfContext(t *testing.T) {
	cfg := watchdog.Config{Budget: watchdog.Budget{WallClock: time.Hour}}
	runBubble(t, "at its own close", cfg, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
		ctx, waiting := newOwnContext(), 0
		ctx.asked, ctx.stopped = func() { waiting++ }, func() { waiting--; wd.Elapsed() }
		h, err := wd.Hold(ctx, "tool", noCap)
		require.NoError(t, err)
		require.Equal(t, 1, waiting)
		require.True(t, h.Close())
		require.Zero(t, waiting)
	})
	t.Run("so that nothing of a run that has ended is kept while the context lasts", func(t *testing.T) {
		ctx := t.Context()
		run := func() weak.Pointer[watchdog.Watchdog] {
			wd, err := watchdog.New(context.Background(), watchdog.Run{}, watchdog.Config{Logger: quiet})
			require.NoError(t, err)
			_, err = wd.Hold(ctx, "tool", noCap)
			require.NoError(t, err)
			require.NoError(t, wd.Close())
			return weak.Make(wd)
		}()
		for range 10 {
			runtime.GC()
		}
		require.Nil(t, run.Value())
	})
}

var approval = watchdog.HoldLimit{Cap: 24 * time.Hour, PausesWallClock: true}

// TestPausedWallClock protects a run from a hold that stops the wall clock for ever.
func TestPausedWallClock(t *testing.T) {
	approval := watchdog.HoldLimit{Cap: 3 * time.Hour, PausesWallClock: true}
	runFixture(t, "in a run that is only observed not beyond its cap", func(b *fixture) {
		b.cfg.Budget, b.cfg.ObserveOnly = watchdog.Budget{WallClock: time.Hour}, true
		wd := b.attach()
		openHold(b.t, wd, "approval", approval)
		b.pass(3*time.Hour + 30*time.Minute)
		require.Equal(b.t, 30*time.Minute, wd.Remaining())
	})
	runFixture(t, "it needs a cap", func(b *fixture) {
		for _, limit := range []watchdog.HoldLimit{{PausesWallClock: true}, {PausesWallClock: true, Cap: watchdog.NoLimit}} {
			_, err := b.attach().Hold(context.Background(), "approval", limit)
			require.ErrorIs(b.t, err, watchdog.ErrInvalid)
			require.ErrorContains(b.t, err, "Cap")
		}
	})
}

// A tripStore is transactional, fails as its test says, and notes what each append and each exchange took, by its
// kinds.
type tripStore struct {
	watchdog.Memory

	mu     sync.Mutex
	away   bool   // nothing is taken
	refuse string // an event of this kind is refused
	took   []string
}

// leave has the store take nothing, or come back.
func (s *tripStore) leave(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

func (s *tripStore) take(events []watchdog.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var kinds []string
	for _, e := range events {
		kinds = append(kinds, strings.TrimPrefix(e.Type, "runtime.watchdog."))
	}
	if s.away || slices.Contains(kinds, s.refuse) {
		return errDiskFull
	}
	s.took = append(s.took, strings.Join(kinds, " "))
	return nil
}

func (s *tripStore) Append(ctx context.Context, events ...watchdog.Event) error {
	if err := s.take(events); err != nil {
		return err
	}
	return s.Memory.Append(ctx, events...)
}

func (s *tripStore) Transact(ctx context.Context, exchanges ...*event.Exchange) error {
	for _, asked := range exchanges {
		var refused error
		x := *asked
		x.Decide = func(selected []watchdog.Event) []watchdog.Event {
			events := asked.Decide(selected)
			if refused = s.take(events); refused != nil {
				return nil
			}
			return events
		}
		err := s.Memory.Transact(ctx, &x)
		if asked.Kept = x.Kept; refused != nil || err != nil {
			return cmp.Or(refused, err)
		}
	}
	return nil
}

// TestTripWithPauses protects that whoever finds a cancel finds the pauses that explain it, and that what the store
// does not take of a pause keeps no stop from it.
func TestTripWithPauses(t *testing.T) {
	for _, transactional := range []bool{true, false} {
		for _, refuse := range []string{"", "hold", "release"} {
			runFixture(t, fmt.Sprintf("refused: %q, in one transaction: %v", refuse, transactional), func(b *fixture) {
				store := &tripStore{}
				b.cfg.Store, b.cfg.PollOnly, b.cfg.Budget = store, true, hourly
				if !transactional {
					b.cfg.Store = struct{ watchdog.EventStore }{store}
				}
				wd := b.attach()
				store.leave(true) // an approval of ten minutes of which it takes nothing, and then the hour used up
				h := openHold(b.t, wd, "approval", approval)
				b.pass(10 * time.Minute)
				h.Close()
				b.pass(time.Hour)
				b.live(wd)
				store.leave(false)
				store.refuse = refuse
				b.pass(1)
				require.Equal(b.t, 10*time.Minute, b.stopped(wd).Paused)
				require.Equal(b.t, wd.Stop(), b.attach().Stop())
				require.Equal(b.t, 1, countEvents(b.t, b.cfg.Store, event.Cancel))
				if refuse != "" {
					require.ErrorIs(b.t, wd.Close(), errDiskFull)
					store.refuse = ""
				} else {
					require.Equal(b.t, []string{"hold release cancel"}, store.took)
				}
				require.NoError(b.t, wd.Close())
				for _, kind := range []string{event.Hold, event.Release, event.Cancel} {
					require.Equal(b.t, 1, countEvents(b.t, b.cfg.Store, kind))
				}
			})
		}
	}
}

// TestReleaseWhileRecording protects that a hold which is closed while the run's stop is being recorded is on record,
// though nobody looks at the run any more.
func TestReleaseWhileRecording(t *testing.T) {
	inFixture(t, func(b *fixture) {
		b.cfg.Budget = hourly
		wd := b.attach()
		h := openHold(b.t, wd, "approval", approval)
		synctest.Wait()
		goOn := b.store.hangs()
		go func() { _, _ = wd.Cancel(noOutput) }()
		synctest.Wait()
		require.True(b.t, h.Close())
		goOn()
		synctest.Wait()
		require.ErrorIs(b.t, context.Cause(wd.Context()), noOutput.Reason)
		b.pass(time.Second) // nobody polls
		require.Len(b.t, b.events(event.Release), 1)
	})
}

func TestLayer(t *testing.T) {
	session := watchdog.Config{Budget: watchdog.Budget{WallClock: time.Hour, Reserve: 5 * minute, Idle: 20 * minute}}
	runBubble(t, "the cause says which layer ended the work", session, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
		step := openLayer(t, wd, "build", watchdog.Budget{})
		defer step.Close()
		tool := openLayer(t, step, "grep", watchdog.Budget{Idle: minute})
		defer tool.Close()
		after(minute + 1)
		require.Equal(t, "s-1/build/grep", requireStop(t, tool, watchdog.IdleExceeded).RunID)
		requireRunning(t, step)
		after(19 * minute)
		requireStop(t, wd, watchdog.IdleExceeded)
		require.ErrorIs(t, context.Cause(step.Context()), watchdog.IdleExceeded)
		var stop *watchdog.Stop
		require.ErrorAs(t, context.Cause(step.Context()), &stop)
		require.Equal(t, "s-1", stop.RunID, "the session's idle limit ended the step")
		require.False(t, hasFired(step))
	})
	t.Run("without a wall clock of its own it may have a reserve of more than the default of one", func(t *testing.T) {
		day := watchdog.Config{Budget: watchdog.Budget{WallClock: 24 * time.Hour}}
		inBubble(t, day, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
			require.Equal(t, 19*time.Hour, openLayer(t, wd, "build", watchdog.Budget{Reserve: 5 * time.Hour}).Remaining())
		})
	})
	runBubble(t, "near the run's end it says that the run has ended", session, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
		openHold(t, wd, "approval", noCap)
		after(54 * minute)
		_, err := wd.Layer("build", watchdog.Budget{Reserve: 2 * minute})
		require.ErrorIs(t, err, watchdog.ErrEnded, "its reserve leaves nothing")
		require.NotErrorIs(t, err, context.Canceled, "it runs")
		_, err = wd.Layer("build", watchdog.Budget{Reserve: minute})
		require.ErrorIs(t, err, watchdog.ErrEnded, "of a minute left, its reserve is a minute")
		_, err = wd.Layer("build", watchdog.Budget{Reserve: minute - 1})
		require.NoError(t, err, "a nanosecond is left to work in")
		_, err = wd.Layer("build", watchdog.Budget{WallClock: minute, Reserve: 2 * minute})
		require.ErrorIs(t, err, watchdog.ErrInvalid, "nor would it in any other run")
		after(minute)
		wrapping, err := wd.Layer("build", watchdog.Budget{})
		require.NoError(t, err, "the host was asked to wrap up, and may use the reserve for that")
		require.Equal(t, 5*minute, wrapping.Remaining())
		require.NoError(t, wrapping.Close())
	})
	runFixture(t, "late, after its end, and after its parent's, it names the cause", func(b *fixture) {
		b.cfg.PollOnly = true
		wd := b.attach()
		b.pass(over)
		_, err := wd.Layer("build", watchdog.Budget{})
		require.ErrorIs(b.t, err, watchdog.ErrEnded)
		require.ErrorIs(b.t, err, watchdog.WallClockExceeded)
		parent, end := context.WithCancelCause(context.Background())
		b.run.ID = "s-2"
		wd = attachTo(parent, b.t, b.run, watchdog.Config{
			Store: b.store, Clock: b.clock, Budget: watchdog.Budget{WallClock: watchdog.NoLimit},
		})
		end(errHostGone)
		_, err = wd.Layer("build", watchdog.Budget{})
		require.ErrorIs(b.t, err, watchdog.ErrEnded)
		require.ErrorIs(b.t, err, errHostGone)
	})
	runBubble(t, "an extension beyond what the run has left is refused, and says so", session, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
		step := openLayer(t, wd, "build", watchdog.Budget{WallClock: 10 * minute})
		require.NoError(t, step.Extend(time.Hour))
		require.Equal(t, 55*minute, step.Remaining())
		err := step.Extend(time.Hour)
		require.ErrorIs(t, err, watchdog.ErrInvalid)
		require.ErrorContains(t, err, "run s-1 has no more left; extend that first")
	})
	runBubble(t, "names that make no sense and runs that have ended are refused", session, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
		for _, name := range []string{"", "a/b", "a\nb"} {
			_, err := wd.Layer(name, watchdog.Budget{})
			require.ErrorIs(t, err, watchdog.ErrInvalid)
		}
		_, err := wd.Layer(strings.Repeat("x", 252), watchdog.Budget{})
		require.ErrorIs(t, err, watchdog.ErrInvalid)
		_, err = wd.Layer("build", watchdog.Budget{WallClock: -1})
		require.ErrorIs(t, err, watchdog.ErrInvalid)
		require.NoError(t, wd.Close())
		_, err = wd.Layer("build", watchdog.Budget{})
		require.ErrorIs(t, err, watchdog.ErrEnded)
	})
}

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

// runLadder runs a case of a test in a bubble with a run whose idle limit is 300 ms and has the ladder.
func runLadder(
	t *testing.T, name string, test func(b *fixture, wd *watchdog.Watchdog), rungs ...watchdog.DirectiveKind,
) {
	t.Helper()
	runFixture(t, name, func(b *fixture) {
		b.run.StartedAt, b.cfg.Clock = time.Now(), nil
		b.cfg.Budget = watchdog.Budget{Idle: 300 * time.Millisecond, Ladders: watchdog.Ladders{Idle: rungs}}
		test(b, b.attach())
	})
}

func TestTry(t *testing.T) {
	runLadder(t, "each attempt at a call that hangs begins with its directive", func(b *fixture, wd *watchdog.Watchdog) {
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
	runLadder(t, "WAIT ends none, nor does a directive that came before", func(b *fixture, wd *watchdog.Watchdog) {
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
	runLadder(t, "it ends with the caller's context and the run", func(b *fixture, wd *watchdog.Watchdog) {
		ctx, stop := context.WithCancelCause(b.t.Context())
		stop(errHostGone)
		require.ErrorIs(b.t, wd.Try(ctx, hangs), errHostGone)
		require.ErrorIs(b.t, wd.Try(b.t.Context(), func(context.Context) error { return errDiskFull }), errDiskFull)
		require.NoError(b.t, wd.Try(b.t.Context(), func(ctx context.Context) error { _ = hangs(ctx); return nil }))
		require.ErrorIs(b.t, wd.Try(b.t.Context(), hangs), watchdog.IdleExceeded)
	}, retry)
	runLadder(t, "a store that is away is not asked for each work", func(b *fixture, wd *watchdog.Watchdog) {
		b.store.set(func(s *flakyStore) { s.fail = errDiskFull })
		openHold(b.t, wd, "build", watchdog.HoldLimit{Cap: time.Minute, PausesWallClock: true})
		synctest.Wait()
		asked := b.store.appends
		require.Positive(b.t, asked)
		for range 3 {
			require.NoError(b.t, wd.Try(b.t.Context(), func(context.Context) error { return nil }))
			synctest.Wait()
		}
		require.Equal(b.t, asked, b.store.appends)
	})
	runLadder(t, "work that panics leaves nothing behind", func(b *fixture, wd *watchdog.Watchdog) {
		require.Panics(b.t, func() { _ = wd.Try(b.t.Context(), func(context.Context) error { panic("work") }) })
		require.NoError(b.t, wd.Try(b.t.Context(), func(context.Context) error { return nil }))
	}, retry)
	runLadder(t, "a store that hangs does not keep the work going", func(b *fixture, wd *watchdog.Watchdog) {
		goOn := b.store.hangs()
		begun := time.Now()
		require.Error(b.t, wd.Try(b.t.Context(), hangs))
		require.Equal(b.t, 300*time.Millisecond, time.Since(begun).Truncate(time.Millisecond))
		goOn()
	}, retry)
	t.Run("without a run it is the work", func(t *testing.T) {
		require.Equal(t, errDiskFull, (*watchdog.Watchdog)(nil).Try(t.Context(), func(context.Context) error { return errDiskFull }))
	})
}

// TestHandle says whose handle a context carries, and for whom a sign of life in it is.
func TestHandle(t *testing.T) {
	type key struct{}
	run := guard(t, watchdog.Config{})
	layer := openLayer(t, run, "step", watchdog.Budget{})
	ofRun, ofLayer := handle.Of(run.Context()), handle.Of(layer.Context())
	try := func(ctx context.Context, wd *watchdog.Watchdog, look func(context.Context)) {
		require.NoError(t, wd.Try(ctx, func(ctx context.Context) error { look(ctx); return nil }))
	}
	t.Run("a run and a layer carry their own", func(t *testing.T) {
		require.NotSame(t, ofRun, ofLayer)
		for _, wd := range []*watchdog.Watchdog{run, layer} {
			inside, cancel := context.WithCancel(context.WithValue(wd.Context(), key{}, 1))
			defer cancel()
			require.Same(t, wd, watchdog.FromContext(inside))
			require.Same(t, handle.Of(wd.Context()), handle.Of(inside))
			require.Same(t, handle.Of(inside), handle.SignsOf(inside))
		}
	})
	t.Run("the work of a Try that of the run that tries", func(t *testing.T) {
		for _, in := range []context.Context{t.Context(), run.Context(), layer.Context()} {
			try(in, run, func(ctx context.Context) { require.Same(t, ofRun, handle.Of(ctx)) })
			try(in, layer, func(ctx context.Context) { require.Same(t, ofLayer, handle.Of(ctx)) })
		}
	})
	t.Run("a timer takes the signs and leaves the run", func(t *testing.T) {
		timed, timer := idle.WithLimit(run.Context(), time.Hour)
		defer timer.Close()
		require.Same(t, ofRun, handle.Of(timed))
		require.NotNil(t, handle.TimerOf(timed))
		require.Nil(t, handle.TimerOf(run.Context()), "a run is no timer")
		try(timed, layer, func(ctx context.Context) { require.NotNil(t, handle.TimerOf(ctx)) })
	})
	t.Run("where there is no run there is none", func(t *testing.T) {
		var none *watchdog.Watchdog
		for _, ctx := range []context.Context{none.Context(), t.Context(), context.WithValue(t.Context(), key{}, run)} {
			require.Nil(t, handle.Of(ctx))
			require.Nil(t, handle.SignsOf(ctx))
			require.Nil(t, watchdog.FromContext(ctx))
		}
	})
	t.Run("it costs no allocation", func(t *testing.T) {
		ctx := run.Context()
		require.Zero(t, testing.AllocsPerRun(100, func() {
			handle.Of(ctx).Alive()
			handle.SignsOf(ctx).AliveAt(time.Now())
			_ = handle.Of(ctx).Settings()
		}))
	})
}

// TestFresh protects the runs inside of one that reads nothing: they read their own events.
func TestFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &watchdog.Memory{}
		cfg := watchdog.Config{Store: store, Budget: watchdog.Budget{WallClock: time.Hour}}
		old := watchdog.Run{ID: "s-1", StartedAt: time.Now()}
		time.Sleep(2 * time.Hour)
		fresh, err := watchdog.New(handle.Fresh{Context: t.Context()}, old, cfg)
		require.NoError(t, err)
		defer fresh.Close()
		require.Nil(t, fresh.Stop())
		require.Equal(t, time.Now().UTC(), fresh.StartedAt(), "it begins now")

		inside := attachTo(fresh.Context(), t, old, cfg)
		require.ErrorIs(t, inside.Stop(), watchdog.WallClockExceeded)
	})
}
