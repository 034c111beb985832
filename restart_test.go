package watchdog_test

import (
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
	"github.com/seed62658d38/watchdog/internal/racing"
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
			runFixture(t, "over "+name, func(b *fixture) {
				b.cfg.Budget = watchdog.Budget{
					WallClock: watchdog.NoLimit, Idle: 10 * time.Minute, NoProgress: time.Hour, Hold: 5 * time.Minute,
					Ladders: watchdog.Ladders{Idle: ladder, NoProgress: ladder, Hold: ladder},
				}
				test(b, func(wd *watchdog.Watchdog) *watchdog.Watchdog { return b.restartAfter(wd, time.Minute, crash) })
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
}

const wait3 = watchdog.DirectiveWait

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
			for began := time.Now(); time.Since(began) < racing.Rounds(200*time.Millisecond, 5*time.Second); {
				time.Sleep(time.Duration(rand.IntN(800)) * time.Microsecond)
				wd.Progress()
			}
			assert.NoError(t, wd.Close())
			checkRungs(t, store)
		})
	}
	all.Wait()
}

// checkRungs checks that each directive is that of the rung after the highest one that is not put back. The times of
// events are by the machine's clock, which can be set between two of them: progress that is dated up to slack later than
// a directive may have been before it.
func checkRungs(t *testing.T, store watchdog.EventStore) {
	t.Helper()
	const slack = 5 * time.Millisecond
	events, err := store.Read(context.Background(), watchdog.AggregateType, "s-1")
	assert.NoError(t, err)
	resetAt, given := map[string]time.Time{}, []givenRung{}
	for _, e := range events {
		var p struct {
			Attempt int      `json:"attempt"`
			Resets  []string `json:"resets"`
		}
		assert.NoError(t, json.Unmarshal(e.Payload, &p))
		for _, id := range p.Resets {
			resetAt[id] = e.Timestamp
		}
		if e.Type == watchdog.EventRetry {
			given = append(given, givenRung{e.ID, e.Timestamp, p.Attempt})
		}
	}
	for i, g := range given {
		strict, late := 1, 1
		for _, before := range given[:i] {
			reset, put := resetAt[before.id]
			if !put || reset.After(g.at) {
				strict = max(strict, before.rung+1)
			}
			if !put || reset.After(g.at.Add(slack)) {
				late = max(late, before.rung+1)
			}
		}
		if !assert.Contains(t, []int{strict, late}, g.rung, "directive %d of %d", i+1, len(given)) {
			return
		}
	}
}

// A givenRung is a directive that was given.
type givenRung struct {
	id   string
	at   time.Time
	rung int
}

func TestLadderEndsInWait(t *testing.T) {
	const wait, retry = watchdog.DirectiveWait, watchdog.DirectiveRetry
	ladders := func(idle ...watchdog.DirectiveKind) watchdog.Config {
		return watchdog.Config{Budget: watchdog.Budget{
			WallClock: watchdog.NoLimit, Idle: minute, Ladders: watchdog.Ladders{Idle: idle},
		}}
	}
	runBubble(t, "each stretch of silence gives one, and never a cancel", ladders(wait), func(t *testing.T, wd *watchdog.Watchdog, store *flakyStore) {
		for n := range 3 {
			after(minute)
			require.Equal(t, n, countEvents(t, store, watchdog.EventWait))
			after(1)
			require.Equal(t, n+1, countEvents(t, store, watchdog.EventWait), "by the timer")
			require.Equal(t, []watchdog.DirectiveKind{wait}, askedOf(wd))
			after(24 * time.Hour)
			require.Empty(t, askedOf(wd))
			wd.Activity()
		}
		requireRunning(t, wd)
		require.Equal(t, 3, countEvents(t, store, watchdog.EventWait))
		require.Equal(t, 3, countEvents(t, store, watchdog.EventWarning))
	})
	t.Run("for no progress a stretch ends with progress, and not with activity or a hold", func(t *testing.T) {
		cfg := watchdog.Config{Budget: watchdog.Budget{
			WallClock: watchdog.NoLimit, NoProgress: minute, Ladders: watchdog.Ladders{NoProgress: many(wait, 1)},
		}}
		inBubble(t, cfg, func(wd *watchdog.Watchdog, store *flakyStore) {
			after(minute + 1)
			require.Equal(t, []watchdog.DirectiveKind{wait}, askedOf(wd))
			for range 10 {
				wd.Activity()
				openHold(t, wd, "tool").Close()
				after(2 * minute)
				require.Empty(t, askedOf(wd))
			}
			wd.Progress()
			after(minute + 1)
			require.Equal(t, 2, countEvents(t, store, watchdog.EventWait), "by the timer")
			require.Equal(t, []watchdog.DirectiveKind{wait}, askedOf(wd))
			requireRunning(t, wd)
		})
	})
}

// TestWaitsAreBounded protects the memory of a run that waits often, and the size of the event of its next progress: a
// wait takes the place of the one before, and progress puts the ladder back for whoever attaches.
func TestWaitsAreBounded(t *testing.T) {
	inFixture(t, func(b *fixture) {
		b.cfg.PollOnly = true
		b.cfg.Budget = watchdog.Budget{WallClock: watchdog.NoLimit, Idle: minute, Ladders: watchdog.Ladders{
			Idle: []watchdog.DirectiveKind{watchdog.DirectiveRetry, watchdog.DirectiveWait},
		}}
		wd := b.attach()
		for range 50 {
			b.pass(minute + 1)
			wd.Fired()
			wd.Activity()
		}
		require.Len(t, b.events(watchdog.EventWait), 49)
		wd.Progress()
		wd.Fired()
		progress := b.events(watchdog.EventProgress)
		require.Len(t, progress, 1)
		var payload struct{ Resets []string }
		require.NoError(t, json.Unmarshal(progress[0].Payload, &payload))
		require.Len(t, payload.Resets, 2, "the retry and the last wait")
		again := b.attach()
		b.pass(minute + 1)
		_, _ = again.Fired()
		require.Len(t, b.events(watchdog.EventRetry), 2, "the ladder is back at its first rung")
	})
}

func TestObserveOnlyOnce(t *testing.T) {
	for name, c := range map[string]struct {
		budget watchdog.Budget
		end    func(wd *watchdog.Watchdog) // of the stretch
	}{
		"of silence": {
			watchdog.Budget{WallClock: watchdog.NoLimit, Idle: minute}, (*watchdog.Watchdog).Activity,
		},
		"without progress": {
			watchdog.Budget{WallClock: watchdog.NoLimit, NoProgress: minute}, (*watchdog.Watchdog).Progress,
		},
	} {
		t.Run("a stretch "+name+" is reported once", func(t *testing.T) {
			cfg := watchdog.Config{ObserveOnly: true, Budget: c.budget}
			inBubble(t, cfg, func(wd *watchdog.Watchdog, store *flakyStore) {
				for n := range 3 {
					after(minute + 1)
					require.Equal(t, n+1, countEvents(t, store, watchdog.EventWarning), "by the timer")
					after(time.Hour)
					d, _ := wd.Poll()
					require.Equal(t, watchdog.DirectiveCancel, d.Kind)
					require.True(t, d.ObserveOnly)
					require.Empty(t, askedOf(wd))
					require.Equal(t, n+1, countEvents(t, store, watchdog.EventWarning))
					c.end(wd)
				}
				requireRunning(t, wd)
			})
		})
	}
	t.Run("a hold is reported once over its cap, and once for each silence", func(t *testing.T) {
		cfg := watchdog.Config{ObserveOnly: true, Budget: watchdog.Budget{WallClock: watchdog.NoLimit}}
		inBubble(t, cfg, func(wd *watchdog.Watchdog, store *flakyStore) {
			_, err := wd.Hold(context.Background(), "tool", watchdog.HoldLimit{Cap: 10 * minute, Idle: minute})
			require.NoError(t, err)
			after(time.Hour)
			wd.Activity()
			after(time.Hour)
			require.Len(t, askedOf(wd), 3)
			require.Equal(t, 3, countEvents(t, store, watchdog.EventWarning))
			requireRunning(t, wd)
		})
	})
}
