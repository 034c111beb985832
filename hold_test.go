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
		_, err := wd.Hold(context.Background(), "tool", watchdog.HoldLimit{Cap: -1})
		require.ErrorIs(t, err, watchdog.ErrInvalid)
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
	runBubble(t, "a negative one is refused and named", endless, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
		_, err := wd.Hold(context.Background(), "tool", watchdog.HoldLimit{Idle: -1})
		require.ErrorIs(t, err, watchdog.ErrInvalid)
		require.ErrorContains(t, err, "Idle is -1ns")
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
			_, fired := wd.Fired()
			require.True(b.t, fired)
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

func (s *tripStore) Transact(ctx context.Context, exchanges ...*watchdog.Exchange) error {
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
				require.Equal(b.t, 1, countEvents(b.t, b.cfg.Store, watchdog.EventCancel))
				if refuse != "" {
					require.ErrorIs(b.t, wd.Close(), errDiskFull)
					store.refuse = ""
				} else {
					require.Equal(b.t, []string{"hold release cancel"}, store.took)
				}
				require.NoError(b.t, wd.Close())
				for _, kind := range []string{watchdog.EventHold, watchdog.EventRelease, watchdog.EventCancel} {
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
		require.Len(b.t, b.events(watchdog.EventRelease), 1)
	})
}
