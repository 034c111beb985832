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
