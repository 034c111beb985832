package watchdog_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// laddered is a run that is asked twice to retry before it is cancelled for its silence.
var laddered = watchdog.Config{Budget: watchdog.Budget{
	Idle: 10 * minute, Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{watchdog.DirectiveRetry, watchdog.DirectiveUnstuck}},
}}

func TestLadder(t *testing.T) {
	runBubble(t, "each trip gives one directive, in order, and only a cancel ends the run", laddered, func(t *testing.T, wd *watchdog.Watchdog, store *flakyStore) {
		for attempt, want := range []watchdog.DirectiveKind{watchdog.DirectiveRetry, watchdog.DirectiveUnstuck} {
			after(10*minute + 1)
			requireRunning(t, wd)
			d, ok := wd.Poll()
			require.True(t, ok)
			require.Equal(t, want, d.Kind)
			require.Equal(t, attempt+1, d.Rung)
			require.Equal(t, watchdog.IdleExceeded, d.Reason)
			_, ok = wd.Poll()
			require.False(t, ok, "one for each trip")
		}
		after(10*minute + 1)
		requireStop(t, wd, watchdog.IdleExceeded)
		d, ok := wd.Poll()
		require.True(t, ok)
		require.Equal(t, watchdog.DirectiveCancel, d.Kind)
		require.Equal(t, 3, d.Rung)
		require.Contains(t, payloads(t, store, watchdog.EventCancel), `"attempt":3`)
	})
	runBubble(t, "the decision and the directive of a trip are one atomic append", laddered, func(t *testing.T, wd *watchdog.Watchdog, store *flakyStore) {
		wd.Note("tool: grep")
		after(10*minute + 1)
		require.Equal(t, 1, store.appends)
		decision := payloads(t, store, watchdog.EventWarning)
		require.Equal(t, decision, payloads(t, store, watchdog.EventRetry))
		require.Contains(t, decision, `"reason":"idle_exceeded"`)
		require.Contains(t, decision, `"directive":"retry","attempt":1,"note":"tool: grep","measured_seconds":600}`)
		events, err := store.Read(context.Background(), watchdog.AggregateType, wd.ID())
		require.NoError(t, err)
		require.Equal(t, watchdog.EventWarning, events[0].Type, "the decision is read before its directive")
	})
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
	runBubble(t, "every subscriber gets every directive, the cancel too, in order", laddered, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
		got := make(chan watchdog.DirectiveKind, 16)
		wd.Subscribe(func(d watchdog.Directive) { got <- d.Kind })
		after(31 * minute)
		require.Equal(t,
			[]watchdog.DirectiveKind{watchdog.DirectiveRetry, watchdog.DirectiveUnstuck, watchdog.DirectiveCancel}, drain(got))
	})
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
	t.Run("one that does not come loses the oldest and is told how many", func(t *testing.T) {
		cfg := watchdog.Config{Budget: watchdog.Budget{Idle: minute, Ladders: watchdog.Ladders{Idle: many(watchdog.DirectiveWait, 30)}}}
		inBubble(t, cfg, func(wd *watchdog.Watchdog, _ *flakyStore) {
			block, got := make(chan struct{}), make(chan watchdog.Directive, 64)
			wd.Subscribe(func(d watchdog.Directive) { <-block; got <- d })
			after(20*minute + 20)
			close(block)
			synctest.Wait()
			require.Equal(t, []int{1, 5}, []int{(<-got).Rung, (<-got).Rung}, "16 of 19 have waited")
			polled, _ := wd.Poll()
			require.Equal(t, 5, polled.Rung)
			require.Equal(t, 4, polled.Dropped)
		})
	})
	runBubble(t, "what waited for one that unsubscribes is not given to it", laddered, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
		block, got := make(chan struct{}), make(chan watchdog.DirectiveKind, 16)
		unsubscribe := wd.Subscribe(func(d watchdog.Directive) { got <- d.Kind; <-block })
		after(31 * minute)
		unsubscribe()
		close(block)
		synctest.Wait()
		require.Equal(t, []watchdog.DirectiveKind{watchdog.DirectiveRetry}, drain(got))
	})
	runBubble(t, "after it unsubscribed one gets nothing more", laddered, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
		got := make(chan watchdog.DirectiveKind, 16)
		unsubscribe := wd.Subscribe(func(d watchdog.Directive) { got <- d.Kind })
		after(11 * minute)
		unsubscribe()
		unsubscribe()
		after(time.Hour)
		require.Len(t, drain(got), 1)
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
	retry := []watchdog.DirectiveKind{watchdog.DirectiveRetry}
	for name, c := range map[string]struct {
		budget watchdog.Budget
		says   string
	}{
		"a ladder for progress, which is off": {watchdog.Budget{Ladders: watchdog.Ladders{NoProgress: retry}}, "Ladders.NoProgress"},
		"a rung after the cancel":             {watchdog.Budget{Idle: 1, Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{watchdog.DirectiveCancel, watchdog.DirectiveWait}}}, "after cancel"},
		"a rung that is no directive":         {watchdog.Budget{Idle: 1, Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{"stop"}}}, `"stop"`},
		"a first sign that nothing waits for": {watchdog.Budget{Idle: 1, FirstSign: 1}, "FromFirstSign"},
		"limits from the first sign, all off": {watchdog.Budget{FromFirstSign: true, FirstSign: 1}, "Idle or NoProgress"},
		"a negative idle":                     {watchdog.Budget{Idle: -1}, "Idle"},
		"a negative safety":                   {watchdog.Budget{Safety: -1}, "Safety"},
		"a negative cap":                      {watchdog.Budget{Hold: -1}, "Hold"},
		"a negative no-progress":              {watchdog.Budget{NoProgress: -1}, "NoProgress"},
		"a negative first sign":               {watchdog.Budget{Idle: 1, FromFirstSign: true, FirstSign: -1}, "FirstSign"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.budget.Validate()
			require.ErrorIs(t, err, watchdog.ErrInvalid)
			require.ErrorContains(t, err, c.says)
		})
	}
	require.NoError(t, watchdog.Budget{FirstSign: watchdog.NoLimit}.Validate(), "what is off needs nothing else")
}

// TestBudgetOff checks that what is switched off by name is off, and needs nothing else that is on.
func TestBudgetOff(t *testing.T) {
	off := watchdog.Budget{
		WallClock: watchdog.NoLimit, Safety: watchdog.NoLimit, Idle: watchdog.NoLimit, NoProgress: watchdog.NoLimit,
		Hold: watchdog.NoLimit, FirstSign: watchdog.NoLimit,
	}
	require.NoError(t, off.Validate())
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
		wd, hang := b.attach(), make(chan struct{})
		b.store.set(func(s *flakyStore) { s.hang = hang })
		b.pass(time.Minute + 1)
		begun := b.clock.Now()
		for d := range wd.Pending() {
			b.t.Fatal(d)
		}
		require.Equal(b.t, begun, b.clock.Now())
		close(hang)
		synctest.Wait()
		for d := range wd.Pending() {
			require.Equal(b.t, watchdog.DirectiveCancel, d.Kind)
		}
		for d := range (*watchdog.Watchdog)(nil).Pending() {
			b.t.Fatal(d)
		}
	})
}
