package watchdog_test

import (
	"context"
	"encoding/json"
	"math"
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
	"github.com/seed62658d38/watchdog/event"
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
		require.Zero(t, countEvents(t, store, event.Cancel))
		require.Contains(t, payloads(t, store, event.Warning),
			`"directive":"cancel","attempt":3,"observe_only":true`)
	})
	runFixture(t, "an observed run is not cancelled for the next attach, and is found over its wall clock once", func(b *fixture) {
		b.cfg.ObserveOnly, b.cfg.PollOnly = true, true
		wd := b.attach()
		b.pass(over)
		b.live(wd)
		b.pass(time.Hour)
		b.live(wd)
		require.Equal(b.t, 1, strings.Count(payloads(b.t, b.store, event.Warning), `"observe_only":true`))
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
			events, err := store.Read(t.Context(), event.AggregateType, wd.ID())
			require.NoError(t, err)
			require.Equal(t, event.Warning, events[0].Type, "the decision is read before its directive")
			wd.Progress()
			after(minute * 9 / 10)
			if pollOnly {
				wd.Fired()
			}
			require.Equal(t, 1, countEvents(t, store, event.Progress))
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
	events, err := store.Read(context.Background(), event.AggregateType, "s-1")
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
		if e.Type == event.Retry {
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
			inBubble(t, cfg, func(t *testing.T, wd *watchdog.Watchdog, store *flakyStore) {
				for n := range 3 {
					after(minute + 1)
					require.Equal(t, n+1, countEvents(t, store, event.Warning), "by the timer")
					after(time.Hour)
					d, _ := wd.Poll()
					require.Equal(t, watchdog.DirectiveCancel, d.Kind)
					require.True(t, d.ObserveOnly)
					require.Empty(t, askedOf(wd))
					require.Equal(t, n+1, countEvents(t, store, event.Warning))
					c.end(wd)
				}
				requireRunning(t, wd)
			})
		})
	}
}

func TestObserveOnlyRemaining(t *testing.T) {
	cfg := watchdog.Config{ObserveOnly: true, Budget: watchdog.Budget{WallClock: time.Hour}}
	runBubble(t, "an observed run past its limit has nothing left, and its layers go on", cfg, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
		inner := openLayer(t, wd, "step", watchdog.Budget{WallClock: 30 * minute})
		for _, at := range []time.Duration{0, time.Microsecond, minute} { // at the limit, just after, later
			after(time.Hour + at - wd.Elapsed())
			requireRunning(t, wd)
			require.Zero(t, wd.Remaining())
			require.Zero(t, inner.Remaining())
			layer := openLayer(t, wd, "next", watchdog.Budget{WallClock: 10 * minute, Reserve: minute})
			require.Equal(t, 9*minute, layer.Remaining())
			require.NoError(t, inner.Extend(minute), "what is around it ends nothing")
			after(0)
			require.NoError(t, layer.Close())
		}
		require.NoError(t, wd.Extend(time.Hour))
		require.Equal(t, 59*minute, wd.Remaining())
	})
}

func TestExtend(t *testing.T) {
	runFixture(t, "a run that is cancelled elsewhere while it is recorded is not extended", func(b *fixture) {
		operator := b.attach()
		cancel := func() { _, _ = operator.Cancel(watchdog.Cancellation{Reason: "iteration_timeout"}) }
		b.cfg.Store = beforeAppend(b.store, cancel)
		wd := b.attach()
		require.ErrorIs(b.t, wd.Extend(time.Hour), watchdog.ErrEnded)
		require.ErrorIs(b.t, context.Cause(wd.Context()), watchdog.StopReason("iteration_timeout"))
	})
	runFixture(t, "nor is one that is closed meanwhile", func(b *fixture) {
		goOn, wd, extended := b.store.hangs(), b.attach(), make(chan error, 1)
		go func() { extended <- wd.Extend(time.Hour) }()
		synctest.Wait()
		require.NoError(b.t, wd.Close())
		goOn()
		require.ErrorIs(b.t, <-extended, watchdog.ErrClosed)
	})
	runFixture(t, "lengths that make no sense are refused and nothing is written", func(b *fixture) {
		wd := b.attach()
		for _, d := range []time.Duration{0, 999, -time.Hour, math.MaxInt64, math.MaxInt64 - time.Hour} {
			require.ErrorIs(b.t, wd.Extend(d), watchdog.ErrInvalid, d)
		}
		b.cfg.Budget.WallClock = watchdog.NoLimit
		require.ErrorIs(b.t, b.attach().Extend(time.Hour), watchdog.ErrInvalid)
		require.Empty(b.t, b.events(event.Extend))
	})
}

func TestWarnings(t *testing.T) {
	warned := func(b *fixture) func() []float64 {
		told := make(chan float64, 16)
		b.cfg.OnWarning = func(w watchdog.Warning) { told <- w.Fraction }
		return func() (fractions []float64) {
			synctest.Wait()
			for len(told) > 0 {
				fractions = append(fractions, <-told)
			}
			return fractions
		}
	}
	runFixture(t, "one comes when 80 % are used, recorded, once for all processes", func(b *fixture) {
		told := warned(b)
		b.attach()
		other := b.attach()
		b.pass(192*time.Minute - 1)
		require.Empty(b.t, told())
		b.pass(1)
		require.Equal(b.t, []float64{0.8, 0.8}, told(), "each process tells its host")
		require.Len(b.t, b.events(event.Warning), 1)
		require.NoError(b.t, other.Close())
		b.attach()
		require.Empty(b.t, told(), "a warning that was recorded before the attach is not given again")
	})
	runFixture(t, "each fraction gives one, in order, also when a sleep passed several", func(b *fixture) {
		b.cfg.Budget.WarnAt = []float64{0.9, 0.25, 0.5}
		told := warned(b)
		b.attach()
		b.clock.suspend(3 * time.Hour)
		b.pass(time.Minute)
		require.Equal(b.t, []float64{0.25, 0.5}, told())
		b.pass(35 * time.Minute)
		require.Equal(b.t, []float64{0.9}, told())
		require.Len(b.t, b.events(event.Warning), 3)
	})
	runFixture(t, "they tell what is left, less the reserve until the run is asked to wrap up", func(b *fixture) {
		b.cfg.Budget.Reserve, b.cfg.Budget.WarnAt = 8*time.Minute, []float64{0.8, 0.975}
		var got watchdog.Warning
		b.cfg.PollOnly, b.cfg.OnWarning = true, func(w watchdog.Warning) { got = w }
		wd := b.attach()
		b.pass(192 * time.Minute)
		b.live(wd)
		require.Equal(b.t, watchdog.Warning{
			RunID: "s-1", Fraction: 0.8, Elapsed: 192 * time.Minute, Budget: 4 * time.Hour,
			Remaining: 40 * time.Minute, At: noon.Add(192 * time.Minute),
		}, got)
		b.pass(40 * time.Minute)
		b.live(wd)
		require.Equal(b.t, many(watchdog.DirectiveWrapUp, 1), askedOf(wd))
		b.pass(2 * time.Minute)
		b.live(wd)
		require.Equal(b.t, 6*time.Minute, got.Remaining, "with it, which is there to be used")
	})
}

// allowed is what the limits of the run allow.
func allowed(wd *watchdog.Watchdog) (all []int64) {
	for _, u := range wd.Usage() {
		all = append(all, u.Allowed)
	}
	return all
}

// TestExtendSpend protects what a run was given from what it is given besides.
func TestExtendSpend(t *testing.T) {
	both := watchdog.Spend{Requests: 10, Turns: 10, Tools: map[string]int64{"rm": 10}, WarnAt: []float64{}}
	runFixture(t, "what cannot be extended is an error, and is not recorded", func(f *fixture) {
		f.cfg.Budget.Spend = both
		wd := f.attach()
		for text, more := range map[string]watchdog.Spend{
			"Reserve, WarnAt":         {Requests: 1, Reserve: watchdog.Totals{Requests: 1}},
			"WarnAt and Used":         {Requests: 1, WarnAt: []float64{}},
			"and Used cannot":         {Requests: 1, Used: []watchdog.Usage{{Limit: "requests", Used: 1}}},
			"Requests is -1":          {Requests: watchdog.None},
			"no limit of ToolCalls":   {ToolCalls: 1},
			"no limit of Tools":       {Tools: map[string]int64{"other": 1}},
			"extension: it has no li": {},
		} {
			err := wd.ExtendSpend(more)
			require.ErrorIs(f.t, err, watchdog.ErrInvalid)
			require.ErrorContains(f.t, err, text)
		}
		require.Empty(f.t, f.events(event.Extend))
		require.Equal(f.t, []int64{10, 10, 10}, allowed(wd))
	})
	t.Run("each limit by its own, again and again", func(t *testing.T) {
		for name, store := range map[string]bool{"with a store": true, "without one": false} {
			runFixture(t, name, func(f *fixture) {
				f.cfg.Budget.Spend, f.cfg.Budget.WallClock = both, time.Hour
				if !store {
					f.cfg.Store = nil
				}
				wd := f.attach()
				require.NoError(f.t, wd.Extend(time.Hour))
				require.NoError(f.t, wd.ExtendSpend(watchdog.Spend{Requests: 5}))
				require.NoError(f.t, wd.ExtendSpend(watchdog.Spend{Requests: 5}))
				require.NoError(f.t, wd.ExtendSpend(watchdog.Spend{Turns: 1, Tools: map[string]int64{"rm": 2}}))
				require.Equal(f.t, []int64{20, 11, 12}, allowed(wd))
				require.Equal(f.t, 2*time.Hour, wd.Remaining(), "the time stays")
			})
		}
	})
	runFixture(t, "a run that is late has ended", func(f *fixture) {
		f.cfg.Budget.Spend, f.cfg.Budget.WallClock, f.cfg.PollOnly = both, time.Minute, true
		wd := f.attach()
		f.pass(2 * time.Minute)
		require.ErrorIs(f.t, wd.ExtendSpend(watchdog.Spend{Requests: 5}), watchdog.ErrEnded)
		require.Empty(f.t, f.events(event.Extend))
		require.Len(f.t, f.events(event.Cancel), 1)
	})
}

// TestSpendTakenUp protects a run that is attached again from what the window asked before: of that limit, and no
// other.
func TestSpendTakenUp(t *testing.T) {
	runFixture(t, "and that of another limit as large does not", func(f *fixture) {
		f.cfg.Budget.Spend = watchdog.Spend{Requests: 5, Turns: 5, WarnAt: []float64{}}
		f.cfg.Budget.Ladders.Requests = many(watchdog.DirectiveRetry, 3)
		f.cfg.Budget.Ladders.Turns = many(watchdog.DirectiveRetry, 3)
		wd := f.attach()
		refuse(f.t, wd, requests(6))
		refuse(f.t, wd, requests(6))
		f.pass(0)
		require.NoError(f.t, wd.Close())
		wd = f.attach()
		refuse(f.t, wd, watchdog.Amount{Turns: 6})
		f.pass(0)
		require.Equal(f.t, []string{"retry 1"}, polled(wd))
	})
}

// TestExtendedElsewhere protects a call from being refused for a limit that another process has extended.
func TestExtendedElsewhere(t *testing.T) {
	for name, set := range map[string]func(f *fixture){
		"with a timer":                         func(*fixture) {},
		"without one":                          func(f *fixture) { f.cfg.PollOnly = true },
		"with a store that has no transaction": func(f *fixture) { f.cfg.Store = plainStore{f.store} },
		"of the limit of a tool": func(f *fixture) {
			f.cfg.Budget.Spend.Tools = map[string]int64{"rm": 1}
			f.cfg.Budget.Spend.Requests = 100
		},
	} {
		runFixture(t, name, func(f *fixture) {
			f.cfg.Budget.Spend = watchdog.Spend{Requests: 10, WarnAt: []float64{}}
			set(f)
			most, more := requests(8), watchdog.Spend{Requests: 100}
			if f.cfg.Budget.Spend.Tools != nil {
				most, more = watchdog.Amount{ToolCalls: 1, Tool: "rm"}, watchdog.Spend{Tools: map[string]int64{"rm": 9}}
			}
			wd, operator := f.attach(), f.attach()
			layer := openLayer(f.t, wd, "in", watchdog.Budget{})
			admit(f.t, layer, most)
			require.NoError(f.t, operator.ExtendSpend(more))
			for range 9 {
				admit(f.t, layer, most)
			}
			f.live(wd)
			require.Empty(f.t, f.events(event.Cancel))
		})
	}
	runFixture(t, "by too little for the call", func(f *fixture) {
		f.cfg.Budget.Spend = watchdog.Spend{Requests: 10, WarnAt: []float64{}}
		wd, operator := f.attach(), f.attach()
		require.NoError(f.t, operator.ExtendSpend(watchdog.Spend{Requests: 5}))
		r := refuse(f.t, wd, requests(20))
		require.EqualValues(f.t, 15, r.Allowed)
		require.Equal(f.t, watchdog.RequestsExceeded, wd.Stop().Code)
		require.Len(f.t, f.events(event.Cancel), 1)
	})
	runSynced(t, "and many calls at once", func(t *testing.T) {
		cfg := watchdog.Config{
			Store: &watchdog.Memory{}, Logger: quiet,
			Budget: watchdog.Budget{Spend: watchdog.Spend{Requests: 10, WarnAt: []float64{}}},
		}
		run := watchdog.Run{ID: "s-1", StartedAt: time.Now()}
		wd := attachTo(context.Background(), t, run, cfg)
		operator := attachTo(context.Background(), t, run, cfg)
		require.NoError(t, operator.ExtendSpend(watchdog.Spend{Requests: 54}))
		require.Zero(t, refusedTogether(wd, 64, requests(1)))
		requireRunning(t, wd)
	})
}

// A plainStore is a store of events and nothing else.
type plainStore struct{ watchdog.EventStore }
