package watchdog_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
)

// laddered is a run that is asked twice to retry before it is cancelled for its silence.
var laddered = watchdog.Config{Budget: watchdog.Budget{
	Idle: 10 * minute, Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{watchdog.DirectiveRetry, watchdog.DirectiveUnstuck}},
}}

func TestLadder(t *testing.T) {
	runBubble(t, "who sees the context end finds the cancel at the next poll", watchdog.Config{Budget: watchdog.Budget{Idle: minute}}, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
		found := make(chan bool, 1)
		context.AfterFunc(wd.Context(), func() {
			_, ok := wd.Poll()
			found <- ok
		})
		after(minute + 1)
		require.True(t, <-found)
	})
	runBubble(t, "a stop tells what was used of its limit, not floored", watchdog.Config{Budget: watchdog.Budget{Idle: 700 * time.Millisecond}}, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
		after(time.Second)
		require.Equal(t, 700*time.Millisecond, requireStop(t, wd, watchdog.IdleExceeded).Elapsed)
	})
}

func TestSubscribe(t *testing.T) {
	runBubble(t, "one that blocks or panics harms neither the watchdog nor the others", laddered, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
		block, got := make(chan struct{}), make(chan watchdog.DirectiveKind, 16)
		wd.Subscribe(func(watchdog.Directive) { <-block })
		wd.Subscribe(func(watchdog.Directive) { panic("host") })
		wd.Subscribe(func(d watchdog.Directive) { got <- d.Kind })
		after(31 * minute)
		requireStop(t, wd, watchdog.IdleExceeded)
		require.Len(t, drain(got), 3)
		require.NoError(t, wd.Close())
		close(block)
	})
}

func drain(from chan watchdog.DirectiveKind) (all []watchdog.DirectiveKind) {
	for len(from) > 0 {
		all = append(all, <-from)
	}
	return all
}

func many(kind watchdog.DirectiveKind, n int) (all []watchdog.DirectiveKind) {
	for range n {
		all = append(all, kind)
	}
	return all
}

func TestObserveOnly(t *testing.T) {
	cfg := laddered
	cfg.ObserveOnly = true
	cfg.Budget.WallClock = time.Hour
	runBubble(t, "everything is decided and recorded, nothing is cancelled", cfg, func(t *testing.T, wd *watchdog.Watchdog, store *flakyStore) {
		after(45 * minute)
		requireRunning(t, wd)
		var kinds []watchdog.DirectiveKind
		for d, ok := wd.Poll(); ok; d, ok = wd.Poll() {
			kinds = append(kinds, d.Kind)
			require.Equal(t, d.Kind == watchdog.DirectiveCancel, d.ObserveOnly)
		}
		require.Equal(t, []watchdog.DirectiveKind{watchdog.DirectiveRetry, watchdog.DirectiveUnstuck, watchdog.DirectiveCancel}, kinds)
		require.Zero(t, countEvents(t, store, watchdog.EventCancel))
		require.Contains(t, payloads(t, store, watchdog.EventWarning),
			`"directive":"cancel","attempt":3,"observe_only":true`)
	})
	runFixture(t, "an observed run is not cancelled for the next attach, and is found over its wall clock once", func(b *fixture) {
		b.cfg.ObserveOnly, b.cfg.PollOnly = true, true
		wd := b.attach()
		b.pass(over)
		b.live(wd)
		b.pass(time.Hour)
		b.live(wd)
		require.Equal(b.t, 1, strings.Count(payloads(b.t, b.store, watchdog.EventWarning), `"observe_only":true`))
		b.live(b.attach())
	})
}

func TestBudgetInvalid(t *testing.T) {
	fractions := func(n int) (all []float64) {
		for i := range n {
			all = append(all, float64(i+1)/float64(n+1))
		}
		return all
	}
	for name, c := range map[string]struct {
		budget watchdog.Budget
		says   string
	}{
		"a ladder for progress, which is off": {watchdog.Budget{Ladders: watchdog.Ladders{NoProgress: many(retry, 1)}}, "Ladders.NoProgress"},
		"a rung after the cancel":             {watchdog.Budget{Idle: 1, Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{watchdog.DirectiveCancel, watchdog.DirectiveWait}}}, "after cancel"},
		"a rung that is no directive":         {watchdog.Budget{Idle: 1, Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{"stop"}}}, `"stop"`},
		"a first sign that nothing waits for": {watchdog.Budget{Idle: 1, FirstSign: 1}, "FromFirstSign"},
		"limits from the first sign, all off": {watchdog.Budget{FromFirstSign: true, FirstSign: 1}, "Idle or NoProgress"},
		"a negative idle":                     {watchdog.Budget{Idle: -1}, "Idle"},
		"a negative safety":                   {watchdog.Budget{Safety: -1}, "Safety"},
		"a negative cap":                      {watchdog.Budget{Hold: -1}, "Hold"},
		"a negative no-progress":              {watchdog.Budget{NoProgress: -1}, "NoProgress"},
		"a negative first sign":               {watchdog.Budget{Idle: 1, FromFirstSign: true, FirstSign: -1}, "FirstSign"},
		"a wrap-up in a ladder":               {watchdog.Budget{Idle: 1, Ladders: watchdog.Ladders{Idle: many(watchdog.DirectiveWrapUp, 1)}}, "comes by itself"},
		"many warnings":                       {watchdog.Budget{WarnAt: fractions(101)}, "WarnAt has 101 fractions; use at most 100"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.budget.Validate()
			require.ErrorIs(t, err, watchdog.ErrInvalid)
			require.ErrorContains(t, err, c.says)
		})
	}
	require.NoError(t, watchdog.Budget{WarnAt: fractions(100)}.Validate())
	off := watchdog.Budget{
		WallClock: watchdog.NoLimit, Safety: watchdog.NoLimit, Idle: watchdog.NoLimit, NoProgress: watchdog.NoLimit,
		Hold: watchdog.NoLimit, FirstSign: watchdog.NoLimit,
	}
	require.NoError(t, off.Validate(), "what is off needs nothing else")
}

func TestPendingDirectives(t *testing.T) {
	ladder := watchdog.Ladders{Idle: []watchdog.DirectiveKind{watchdog.DirectiveRetry, watchdog.DirectiveUnstuck}}
	runFixture(t, "yields what is pending, oldest first, once", func(b *fixture) {
		b.cfg.Budget = watchdog.Budget{Idle: time.Minute, Ladders: ladder}
		wd := b.attach()
		for d := range wd.Pending() {
			b.t.Fatal(d)
		}
		b.pass(3*time.Minute + 3)
		var kinds []watchdog.DirectiveKind
		for d := range wd.Pending() {
			kinds = append(kinds, d.Kind)
			if len(kinds) == 2 {
				break
			}
		}
		require.Equal(b.t, ladder.Idle, kinds)
		for d := range wd.Pending() {
			kinds = append(kinds, d.Kind)
		}
		require.Equal(b.t, append(ladder.Idle, watchdog.DirectiveCancel), kinds)
		for d := range b.attach().Pending() {
			require.Equal(b.t, watchdog.DirectiveCancel, d.Kind, "of a stop that was stored before")
		}
	})
	runFixture(t, "never waits for the store, nor for a stop that is being recorded", func(b *fixture) {
		b.cfg.Budget = watchdog.Budget{Idle: time.Minute}
		wd, goOn := b.attach(), b.store.hangs()
		b.pass(time.Minute + 1)
		begun := b.clock.Now()
		for d := range wd.Pending() {
			b.t.Fatal(d)
		}
		require.Equal(b.t, begun, b.clock.Now())
		goOn()
		synctest.Wait()
		for d := range wd.Pending() {
			require.Equal(b.t, watchdog.DirectiveCancel, d.Kind)
		}
		for d := range (*watchdog.Watchdog)(nil).Pending() {
			b.t.Fatal(d)
		}
	})
}

// askedOf polls all directives that are there.
func askedOf(wd *watchdog.Watchdog) (kinds []watchdog.DirectiveKind) {
	for d, ok := wd.Poll(); ok; d, ok = wd.Poll() {
		kinds = append(kinds, d.Kind)
	}
	return kinds
}

// TestProgressIsRecordedSoon protects that progress which puts a ladder back survives a kill soon after it: nobody has
// to look, and it does not wait for the limit to be due again.
func TestProgressIsRecordedSoon(t *testing.T) {
	budget := watchdog.Budget{Idle: minute, Ladders: watchdog.Ladders{Idle: many(retry, 5)}}
	for name, pollOnly := range map[string]bool{"by the timer": false, "by the next poll": true} {
		cfg := watchdog.Config{Budget: budget, PollOnly: pollOnly}
		runBubble(t, name, cfg, func(t *testing.T, wd *watchdog.Watchdog, store *flakyStore) {
			after(minute + 1)
			require.Equal(t, many(retry, 1), askedOf(wd))
			events, err := store.Read(t.Context(), watchdog.AggregateType, wd.ID())
			require.NoError(t, err)
			require.Equal(t, watchdog.EventWarning, events[0].Type, "the decision is read before its directive")
			wd.Progress()
			after(minute * 9 / 10)
			if pollOnly {
				wd.Fired()
			}
			require.Equal(t, 1, countEvents(t, store, watchdog.EventProgress))
		})
	}
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

func TestObserveOnlyOnce(t *testing.T) {
	for name, c := range map[string]struct {
		budget watchdog.Budget
		end    func(wd *watchdog.Watchdog) // of the stretch
		asks   int64                       // whether the host is busy
	}{
		"of silence": {
			watchdog.Budget{WallClock: watchdog.NoLimit, Idle: minute}, (*watchdog.Watchdog).Activity, 3,
		},
		"without progress": {
			watchdog.Budget{WallClock: watchdog.NoLimit, NoProgress: minute}, (*watchdog.Watchdog).Progress, 0,
		},
	} {
		t.Run("a stretch "+name+" is reported once", func(t *testing.T) {
			h := &host{answer: no}
			cfg := watchdog.Config{ObserveOnly: true, Budget: c.budget, Busy: h.busy}
			inBubble(t, cfg, func(t *testing.T, wd *watchdog.Watchdog, store *flakyStore) {
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
				require.Equal(t, c.asks, h.asked.Load())
			})
		})
	}
	t.Run("a hold is reported once over its cap, and once for each silence", func(t *testing.T) {
		cfg := watchdog.Config{ObserveOnly: true, Budget: watchdog.Budget{WallClock: watchdog.NoLimit}}
		inBubble(t, cfg, func(t *testing.T, wd *watchdog.Watchdog, store *flakyStore) {
			openHold(t, wd, "tool", watchdog.HoldLimit{Cap: 10 * minute, Idle: minute})
			after(time.Hour)
			wd.Activity()
			after(time.Hour)
			require.Len(t, askedOf(wd), 3)
			require.Equal(t, 3, countEvents(t, store, watchdog.EventWarning))
			requireRunning(t, wd)
		})
	})
}
