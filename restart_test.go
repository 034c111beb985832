package watchdog_test

import (
	"cmp"
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/replay"
)

// restart lets the process go, as a crash does or with a Close, and another one attach.
func (b *fixture) restartAfter(wd *watchdog.Watchdog, down time.Duration, crash bool) *watchdog.Watchdog {
	b.t.Helper()
	if !crash {
		require.NoError(b.t, wd.Close())
	} else {
		synctest.Wait()
		b.store = copyOf(b.t, b.store) // what the dead process would still do is not seen
		b.cfg.Store = b.store
	}
	b.pass(down)
	return b.attach()
}

// copyOf is a store with the events of another.
func copyOf(t *testing.T, of *flakyStore) *flakyStore {
	t.Helper()
	events, err := of.Memory.Read(context.Background(), watchdog.AggregateType, "s-1")
	require.NoError(t, err)
	copied := &flakyStore{}
	require.NoError(t, copied.Memory.Append(context.Background(), events...))
	return copied
}

// askedOf polls all directives that are there.
func askedOf(wd *watchdog.Watchdog) (kinds []watchdog.DirectiveKind) {
	for d, ok := wd.Poll(); ok; d, ok = wd.Poll() {
		kinds = append(kinds, d.Kind)
	}
	return kinds
}

// TestLadderSurvivesRestart protects that a run which hangs in every process is cancelled at last.
func TestLadderSurvivesRestart(t *testing.T) {
	ladder := []watchdog.DirectiveKind{wait3, retry, unstuck}
	inRestarts := func(t *testing.T, test func(b *fixture, restart func(*watchdog.Watchdog) *watchdog.Watchdog)) {
		for name, crash := range map[string]bool{"a crash": true, "a close": false} {
			t.Run("over "+name, func(t *testing.T) {
				inFixture(t, func(b *fixture) {
					b.cfg.Budget = watchdog.Budget{
						WallClock: watchdog.NoLimit, Idle: 10 * time.Minute, NoProgress: time.Hour, Hold: 5 * time.Minute,
						Ladders: watchdog.Ladders{Idle: ladder, NoProgress: ladder, Hold: ladder},
					}
					test(b, func(wd *watchdog.Watchdog) *watchdog.Watchdog { return b.restartAfter(wd, time.Minute, crash) })
				})
			})
		}
	}
	t.Run("each process asks for the next rung", func(t *testing.T) {
		inRestarts(t, func(b *fixture, restart func(*watchdog.Watchdog) *watchdog.Watchdog) {
			wd := b.attach()
			for _, want := range ladder {
				b.pass(10*time.Minute + 1)
				require.Equal(b.t, []watchdog.DirectiveKind{want}, askedOf(wd))
				wd = restart(wd)
				require.Empty(b.t, askedOf(wd))
			}
			b.pass(10 * time.Minute)
			require.Nil(b.t, wd.Stop())
			b.pass(1)
			require.Equal(b.t, 4, wd.Stop().Rung)
			require.Equal(b.t, watchdog.IdleExceeded, wd.Stop().Code)
		})
	})
	t.Run("progress puts it back, for the next process too", func(t *testing.T) {
		inRestarts(t, func(b *fixture, restart func(*watchdog.Watchdog) *watchdog.Watchdog) {
			wd := b.attach()
			b.pass(20*time.Minute + 2)
			require.Equal(b.t, ladder[:2], askedOf(wd))
			wd.Progress()
			wd.Fired() // whoever looks has it recorded
			synctest.Wait()
			wd = restart(wd)
			require.Len(b.t, b.events(watchdog.EventProgress), 1)
			b.pass(10*time.Minute + 1)
			require.Equal(b.t, ladder[:1], askedOf(wd))
			wd = restart(wd)
			wd.Activity()
			b.pass(10*time.Minute + 1)
			require.Equal(b.t, ladder[1:2], askedOf(wd), "a heartbeat is not progress")
			require.Len(b.t, b.events(watchdog.EventProgress), 1)
		})
	})
	t.Run("that of a hold goes on in the next one with its key, unless it was closed", func(t *testing.T) {
		inRestarts(t, func(b *fixture, restart func(*watchdog.Watchdog) *watchdog.Watchdog) {
			hold := func(wd *watchdog.Watchdog, key string) *watchdog.Hold {
				h, err := wd.Hold(context.Background(), key, watchdog.HoldLimit{})
				require.NoError(b.t, err)
				return h
			}
			wd := b.attach()
			closed := hold(wd, "other")
			hold(wd, "tool")
			b.pass(5*time.Minute + 1)
			require.Equal(b.t, []watchdog.DirectiveKind{wait3, wait3}, askedOf(wd))
			closed.Close()
			synctest.Wait()
			wd = restart(wd)
			hold(wd, "tool")
			hold(wd, "other")
			b.pass(5*time.Minute + 1)
			require.ElementsMatch(b.t, []watchdog.DirectiveKind{retry, wait3}, askedOf(wd))
			require.Len(b.t, b.events(watchdog.EventRelease), 1)
		})
	})
	t.Run("progress puts that of a hold back in a run that has no other limit for signals", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.Budget = watchdog.Budget{Hold: 5 * time.Minute, Ladders: watchdog.Ladders{Hold: ladder}}
			wd := b.attach()
			_, err := wd.Hold(context.Background(), "tool", watchdog.HoldLimit{})
			require.NoError(b.t, err)
			for range 5 {
				b.pass(5*time.Minute + 1)
				require.Equal(b.t, ladder[:1], askedOf(wd))
				wd.Progress()
			}
		})
	})
	t.Run("a progress that came just before the close is not forgotten", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.Budget = watchdog.Budget{Idle: 10 * time.Minute, Ladders: watchdog.Ladders{Idle: ladder}}
			wd := b.attach()
			b.pass(10*time.Minute + 1)
			wd.Progress()
			wd = b.restartAfter(wd, 0, false)
			b.pass(10*time.Minute + 1)
			require.Equal(b.t, ladder[:1], askedOf(wd))
		})
	})
}

const wait3 = watchdog.DirectiveWait

// TestPausedWallClock protects that a person's approval does not use up the run's time, and that a hold which stops the
// wall clock is bounded, recorded and found again.
func TestPausedWallClock(t *testing.T) {
	approval := watchdog.HoldLimit{Cap: 3 * time.Hour, PausesWallClock: true}
	inPause := func(t *testing.T, test func(b *fixture, wd *watchdog.Watchdog, h *watchdog.Hold)) {
		t.Helper()
		inFixture(t, func(b *fixture) {
			b.cfg.Budget = watchdog.Budget{WallClock: time.Hour, Reserve: 10 * time.Minute}
			wd := b.attach()
			b.pass(30 * time.Minute)
			h, err := wd.Hold(context.Background(), "approval", approval)
			require.NoError(b.t, err)
			synctest.Wait()
			test(b, wd, h)
		})
	}
	t.Run("it stands still while the hold is open", func(t *testing.T) {
		inPause(t, func(b *fixture, wd *watchdog.Watchdog, h *watchdog.Hold) {
			b.pass(2 * time.Hour)
			require.Equal(b.t, 20*time.Minute, wd.Remaining())
			require.Equal(b.t, 150*time.Minute, wd.Elapsed())
			require.True(b.t, h.Close())
			synctest.Wait()
			b.pass(30 * time.Minute)
			require.Equal(b.t, []watchdog.DirectiveKind{watchdog.DirectiveWrapUp}, askedOf(wd))
			b.live(wd)
			b.pass(1)
			stop := b.stopped(wd)
			require.Equal(b.t, time.Hour, stop.Elapsed.Truncate(time.Second))
			require.Equal(b.t, 2*time.Hour, stop.Paused)
			require.Contains(b.t, string(b.events(watchdog.EventCancel)[0].Payload), `"paused_seconds":7200`)
			require.Equal(b.t, stop, b.attach().Stop())
		})
	})
	t.Run("for its cap at most, which trips by itself", func(t *testing.T) {
		inPause(t, func(b *fixture, wd *watchdog.Watchdog, _ *watchdog.Hold) {
			b.pass(3*time.Hour + 1)
			require.Equal(b.t, watchdog.HoldExceeded, wd.Stop().Code)
			require.Equal(b.t, "approval", wd.Stop().Hold)
		})
	})
	t.Run("in a run that is only observed not beyond its cap", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.Budget, b.cfg.ObserveOnly = watchdog.Budget{WallClock: time.Hour}, true
			wd := b.attach()
			_, err := wd.Hold(context.Background(), "approval", approval)
			require.NoError(b.t, err)
			b.pass(3*time.Hour + 30*time.Minute)
			require.Equal(b.t, 30*time.Minute, wd.Remaining())
		})
	})
	t.Run("safety goes on", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.Budget = watchdog.Budget{WallClock: time.Hour, Safety: 2 * time.Hour}
			wd := b.attach()
			_, err := wd.Hold(context.Background(), "approval", approval)
			require.NoError(b.t, err)
			b.pass(2*time.Hour + 1)
			require.Equal(b.t, watchdog.SafetyExceeded, wd.Stop().Code)
		})
	})
	t.Run("several at once count once", func(t *testing.T) {
		inPause(t, func(b *fixture, wd *watchdog.Watchdog, h *watchdog.Hold) {
			b.pass(time.Hour)
			second, err := wd.Hold(context.Background(), "second", approval)
			require.NoError(b.t, err)
			b.pass(time.Hour)
			h.Close()
			b.pass(time.Hour)
			second.Close()
			synctest.Wait()
			require.Equal(b.t, 20*time.Minute, wd.Remaining())
			require.Len(b.t, b.events(watchdog.EventHold), 2)
			require.Len(b.t, b.events(watchdog.EventRelease), 2)
		})
	})
	for name, crash := range map[string]bool{"a crash": true, "a close": false} {
		t.Run("after "+name+" the hold is open, and whoever opens it again takes it over", func(t *testing.T) {
			inPause(t, func(b *fixture, wd *watchdog.Watchdog, _ *watchdog.Hold) {
				b.pass(30 * time.Minute)
				wd = b.restartAfter(wd, time.Hour, crash)
				require.Equal(b.t, 20*time.Minute, wd.Remaining(), "the time the process was gone is paused, too")
				h, err := wd.Hold(context.Background(), "approval", watchdog.HoldLimit{Cap: 9 * time.Hour})
				require.NoError(b.t, err)
				_, err = wd.Hold(context.Background(), "approval", approval)
				require.ErrorIs(b.t, err, watchdog.ErrHeld)
				b.pass(time.Hour)
				require.True(b.t, h.Close())
				require.False(b.t, h.Close())
				synctest.Wait()
				b.pass(10 * time.Minute)
				require.Equal(b.t, 10*time.Minute, wd.Remaining())
				wd = b.restartAfter(wd, 5*time.Minute, crash)
				require.Equal(b.t, 5*time.Minute+10*time.Minute, b.cfg.Budget.WallClock-45*time.Minute)
				require.Equal(b.t, 5*time.Minute, wd.Remaining(), "less the reserve")
			})
		})
		t.Run("after "+name+" its cap trips as ever if nobody does", func(t *testing.T) {
			inPause(t, func(b *fixture, wd *watchdog.Watchdog, _ *watchdog.Hold) {
				wd = b.restartAfter(wd, time.Hour, crash)
				b.pass(2 * time.Hour)
				require.Nil(b.t, wd.Stop())
				b.pass(1)
				require.Equal(b.t, watchdog.HoldExceeded, wd.Stop().Code)
				require.Equal(b.t, 3*time.Hour+1, wd.Stop().Elapsed.Round(0)+1)
			})
		})
	}
	t.Run("it counts once the store has it, from the opening on", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.Budget = watchdog.Budget{WallClock: time.Hour}
			wd := b.attach()
			b.store.set(func(s *flakyStore) { s.fail = errDiskFull })
			_, err := wd.Hold(context.Background(), "approval", approval)
			require.NoError(b.t, err)
			b.pass(30 * time.Minute)
			require.Equal(b.t, 30*time.Minute, wd.Remaining())
			b.store.set(func(s *flakyStore) { s.fail = nil })
			wd.Fired() // tries again
			synctest.Wait()
			require.Equal(b.t, time.Hour, wd.Remaining())
		})
	})
	t.Run("a stop before that stands", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.Budget = watchdog.Budget{WallClock: time.Hour}
			wd := b.attach()
			b.store.set(func(s *flakyStore) { s.fail = errDiskFull })
			_, err := wd.Hold(context.Background(), "approval", approval)
			require.NoError(b.t, err)
			b.pass(time.Hour + 1)
			require.Equal(b.t, watchdog.WallClockExceeded, wd.Stop().Code)
		})
	})
	t.Run("another process's limit yields to it", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.Budget = watchdog.Budget{WallClock: time.Hour}
			wd, other := b.attach(), b.attach()
			h, err := wd.Hold(context.Background(), "approval", approval)
			require.NoError(b.t, err)
			b.pass(2 * time.Hour)
			b.live(other)
			require.Equal(b.t, time.Hour, other.Remaining())
			h.Close()
			synctest.Wait()
			b.pass(time.Hour + 1)
			stop, err := other.Sync(b.t.Context())
			require.NoError(b.t, err)
			require.Equal(b.t, watchdog.WallClockExceeded, stop.Code)
			require.Equal(b.t, wd.Stop(), stop)
		})
	})
	t.Run("nor does its cap end a run in which its own process closed it", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.Budget = watchdog.Budget{WallClock: 10 * time.Hour}
			wd := b.attach()
			h, err := wd.Hold(context.Background(), "approval", approval)
			require.NoError(b.t, err)
			synctest.Wait()
			late, synced := b.attach(), b.attach()
			b.pass(time.Hour)
			require.True(b.t, h.Close())
			synctest.Wait()
			_, err = synced.Sync(b.t.Context())
			require.NoError(b.t, err)
			require.NoError(b.t, wd.Close())
			b.pass(2*time.Hour + 1)
			require.Equal(b.t, late.Remaining(), synced.Remaining())
			for _, other := range []*watchdog.Watchdog{late, synced} {
				b.live(other)
				again, err := other.Hold(context.Background(), "approval", watchdog.HoldLimit{Cap: time.Minute})
				require.NoError(b.t, err, "it is not open there any more")
				require.True(b.t, again.Close())
			}
			require.Empty(b.t, b.events(watchdog.EventCancel))
		})
	})
	t.Run("but if it is still open, or was taken over, it does", func(t *testing.T) {
		for name, takesOver := range map[string]bool{"open": false, "taken over": true} {
			t.Run(name, func(t *testing.T) {
				inFixture(t, func(b *fixture) {
					b.cfg.Budget = watchdog.Budget{WallClock: 10 * time.Hour}
					wd := b.attach()
					h, err := wd.Hold(context.Background(), "approval", approval)
					require.NoError(b.t, err)
					synctest.Wait()
					other := b.attach()
					if takesOver {
						_, err = other.Hold(context.Background(), "approval", approval)
						require.NoError(b.t, err)
						require.True(b.t, h.Close())
					}
					b.pass(3*time.Hour + 1)
					require.Equal(b.t, watchdog.HoldExceeded, other.Stop().Code)
				})
			})
		}
	})
	t.Run("a trip finds in the store what the process counts, to the nanosecond", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.Budget = watchdog.Budget{WallClock: time.Hour}
			wd := b.attach()
			b.pass(time.Minute + 700)
			h, err := wd.Hold(context.Background(), "approval", approval)
			require.NoError(b.t, err)
			b.pass(time.Minute + 700)
			h.Close()
			b.pass(2 * time.Hour)
			require.Equal(b.t, watchdog.WallClockExceeded, wd.Stop().Code)
		})
	})
	t.Run("of two processes that close it the one that the store has first counts for both", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.Budget, b.cfg.PollOnly = watchdog.Budget{WallClock: time.Hour}, true
			wd := b.attach()
			h, err := wd.Hold(context.Background(), "approval", approval)
			require.NoError(b.t, err)
			other := b.attach()
			taken, err := other.Hold(context.Background(), "approval", approval)
			require.NoError(b.t, err)
			b.pass(time.Minute)
			b.store.set(func(s *flakyStore) { s.fail = errDiskFull })
			h.Close()
			b.pass(time.Minute)
			b.store.set(func(s *flakyStore) { s.fail = nil })
			taken.Close()
			b.pass(time.Hour)
			b.live(wd)
			b.pass(1)
			require.Equal(b.t, 2*time.Minute, b.stopped(wd).Paused)
		})
	})
	t.Run("it needs a cap", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			for _, limit := range []watchdog.HoldLimit{{PausesWallClock: true}, {PausesWallClock: true, Cap: watchdog.NoLimit}} {
				_, err := b.attach().Hold(context.Background(), "approval", limit)
				require.ErrorIs(b.t, err, watchdog.ErrInvalid)
				require.ErrorContains(b.t, err, "Cap")
			}
		})
	})
	t.Run("that of a layer pauses the run around it, and ends with the layer", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.Budget = watchdog.Budget{WallClock: 2 * time.Hour}
			wd := b.attach()
			step, err := wd.Layer("step", watchdog.Budget{WallClock: time.Hour})
			require.NoError(b.t, err)
			_, err = step.Hold(context.Background(), "approval", approval)
			require.NoError(b.t, err)
			b.pass(2*time.Hour + 30*time.Minute)
			require.Equal(b.t, time.Hour, step.Remaining())
			require.Equal(b.t, 2*time.Hour, wd.Remaining())
			crashed := copyOf(b.t, b.store)
			require.NoError(b.t, step.Close())
			synctest.Wait()
			b.pass(30 * time.Minute)
			require.Equal(b.t, 90*time.Minute, wd.Remaining())

			b.store, b.cfg.Store = crashed, crashed // a crash before the layer was closed
			wd = b.attach()
			require.Equal(b.t, 2*time.Hour, wd.Remaining(), "the layer's process may live: up to the cap")
			b.pass(30 * time.Minute)
			require.Equal(b.t, 90*time.Minute, wd.Remaining())
			b.live(wd)
			require.Empty(b.t, b.events(watchdog.EventRelease))
		})
	})
	t.Run("that of a layer which lives goes on when another process attaches", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.Budget = watchdog.Budget{WallClock: 2 * time.Hour}
			wd := b.attach()
			step, err := wd.Layer("step", watchdog.Budget{})
			require.NoError(b.t, err)
			_, err = step.Hold(context.Background(), "approval", watchdog.HoldLimit{Cap: 9 * time.Hour, PausesWallClock: true})
			require.NoError(b.t, err)
			b.pass(time.Hour)
			other := b.attach()
			b.pass(7 * time.Hour)
			b.live(wd)
			b.live(other)
			require.Equal(b.t, 2*time.Hour, other.Remaining())
			again, err := other.Layer("step", watchdog.Budget{})
			require.NoError(b.t, err)
			taken, err := again.Hold(context.Background(), "approval", watchdog.HoldLimit{Cap: time.Hour, PausesWallClock: true})
			require.NoError(b.t, err)
			synctest.Wait()
			require.True(b.t, taken.Close())
			synctest.Wait()
			b.pass(time.Hour)
			require.Equal(b.t, time.Hour, other.Remaining(), "it was taken over, and is closed")
		})
	})
	t.Run("a trace of it replays", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.Budget = watchdog.Budget{
				WallClock: time.Hour, Reserve: 10 * time.Minute, Idle: 20 * time.Minute,
				Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{retry, retry, retry, retry}},
			}
			var trace []watchdog.Signal
			b.cfg.OnSignal = func(s watchdog.Signal) { trace = append(trace, s) }
			var got []time.Duration
			look := func(wd *watchdog.Watchdog) {
				for d, ok := wd.Poll(); ok; d, ok = wd.Poll() {
					got = append(got, d.At.Sub(noon))
				}
			}
			wd := b.attach()
			b.pass(25 * time.Minute)
			_, err := wd.Hold(context.Background(), "approval", approval)
			require.NoError(b.t, err)
			b.pass(time.Hour)
			look(wd)
			wd = b.restartAfter(wd, time.Minute, false)
			h, err := wd.Hold(context.Background(), "approval", approval)
			require.NoError(b.t, err)
			b.pass(time.Hour)
			h.Close()
			b.pass(time.Hour)
			look(wd)
			decided, err := replay.Run(b.cfg.Budget, trace, false)
			require.NoError(b.t, err, "%v", trace)
			var want []time.Duration
			for _, d := range decided {
				if d.Kind != "" {
					want = append(want, d.At.Truncate(time.Microsecond))
				}
			}
			require.Equal(b.t, want, got)
			require.NotEmpty(b.t, want)
		})
	})
}

// TestProgressIsRecordedSoon protects that progress which puts a ladder back survives a kill soon after it: nobody has
// to look, and it does not wait for the limit to be due again.
func TestProgressIsRecordedSoon(t *testing.T) {
	for name, pollOnly := range map[string]bool{"by the timer": false, "by the next poll": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &flakyStore{}
			wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
				Store: store, Logger: quiet, PollOnly: pollOnly,
				Budget: watchdog.Budget{Idle: time.Second, Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{
					retry, retry, retry, retry, retry,
				}}},
			})
			require.NoError(t, err)
			defer wd.Close()
			require.Eventually(t, func() bool { return len(askedOf(wd)) == 1 }, time.Minute, time.Millisecond)
			if progressAt := time.Now(); pollOnly {
				wd.Progress()
				wd.Fired()
			} else {
				wd.Progress()
				require.Eventually(t, func() bool { return progressEvent(t, store) != nil }, time.Minute, time.Millisecond)
				require.Less(t, time.Since(progressAt), 900*time.Millisecond, "the next look was due after a second")
			}
			require.NotNil(t, progressEvent(t, store))
		})
	}
}

func progressEvent(t *testing.T, store *flakyStore) *watchdog.Event {
	t.Helper()
	events, err := store.Memory.Read(context.Background(), watchdog.AggregateType, "s-1")
	require.NoError(t, err)
	i := slices.IndexFunc(events, func(e watchdog.Event) bool { return e.Type == watchdog.EventProgress })
	if i < 0 {
		return nil
	}
	return &events[i]
}

// TestLadderAndItsEvents protects that where a ladder stands in memory and what its events say is the same, also for
// progress that comes while a directive is being given.
func TestLadderAndItsEvents(t *testing.T) {
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			store := &watchdog.Memory{}
			wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
				Store: store, Logger: quiet,
				Budget: watchdog.Budget{Idle: 200 * time.Microsecond, Ladders: watchdog.Ladders{
					Idle: slices.Repeat([]watchdog.DirectiveKind{retry}, 10_000),
				}},
			})
			if !assert.NoError(t, err) {
				return
			}
			for began := time.Now(); time.Since(began) < time.Second; {
				time.Sleep(time.Duration(rand.IntN(800)) * time.Microsecond)
				wd.Progress()
			}
			assert.NoError(t, wd.Close())
			checkRungs(t, store)
		})
	}
	all.Wait()
}

// checkRungs checks that each directive is that of the rung after the highest one that is not put back.
func checkRungs(t *testing.T, store watchdog.EventStore) {
	t.Helper()
	events, err := store.Read(context.Background(), watchdog.AggregateType, "s-1")
	assert.NoError(t, err)
	slices.SortStableFunc(events, func(a, b watchdog.Event) int { // one look can find progress and a trip
		return cmp.Or(a.Timestamp.Compare(b.Timestamp), cmp.Compare(a.Type, b.Type))
	})
	standing := map[string]int{}
	for _, e := range events {
		var p struct {
			Attempt int      `json:"attempt"`
			Resets  []string `json:"resets"`
		}
		assert.NoError(t, json.Unmarshal(e.Payload, &p))
		for _, id := range p.Resets {
			delete(standing, id)
		}
		if e.Type != watchdog.EventRetry {
			continue
		}
		rung := 1
		for _, before := range standing {
			rung = max(rung, before+1)
		}
		if standing[e.ID] = rung; !assert.Equal(t, rung, p.Attempt, "%s", e.Payload) {
			return
		}
	}
}
