package watchdog_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

func TestExtend(t *testing.T) {
	runFixture(t, "a run that is cancelled elsewhere while it is recorded is not extended", func(b *fixture) {
		operator := b.attach()
		cancel := func() { _, _ = operator.Cancel(watchdog.Cancellation{Reason: watchdog.IterationTimeout}) }
		b.cfg.Store = beforeAppend(b.store, cancel)
		wd := b.attach()
		require.ErrorIs(b.t, wd.Extend(time.Hour), watchdog.ErrEnded)
		require.ErrorIs(b.t, context.Cause(wd.Context()), watchdog.IterationTimeout)
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
		require.Empty(b.t, b.events(watchdog.EventExtend))
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
		require.Len(b.t, b.events(watchdog.EventWarning), 1)
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
		require.Len(b.t, b.events(watchdog.EventWarning), 3)
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
			"Reserve and WarnAt":      {Requests: 1, Reserve: watchdog.Totals{Requests: 1}},
			"WarnAt cannot":           {Requests: 1, WarnAt: []float64{}},
			"Requests is -1":          {Requests: watchdog.None},
			"no limit of ToolCalls":   {ToolCalls: 1},
			"no limit of Tools":       {Tools: map[string]int64{"other": 1}},
			"extension: it has no li": {},
		} {
			err := wd.ExtendSpend(more)
			require.ErrorIs(f.t, err, watchdog.ErrInvalid)
			require.ErrorContains(f.t, err, text)
		}
		require.Empty(f.t, f.events(watchdog.EventExtend))
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
		require.Empty(f.t, f.events(watchdog.EventExtend))
		require.Len(f.t, f.events(watchdog.EventCancel), 1)
	})
	runFixture(t, "a trace has it", func(f *fixture) {
		var more []int64
		f.cfg.Budget.Spend = both
		f.cfg.OnSignal = func(s watchdog.Signal) {
			if s.Kind == watchdog.SignalExtend {
				more = append(more, s.More)
			}
		}
		require.NoError(f.t, f.attach().ExtendSpend(watchdog.Spend{Requests: 5, Turns: 2}))
		require.Equal(f.t, []int64{5, 2}, more)
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
	runFixture(t, "an hour is warned of again, because the events do not say in which hour it was", func(f *fixture) {
		warned := 0
		f.cfg.OnWarning = func(watchdog.Warning) { warned++ }
		f.cfg.Scopes = hourlyTeam(10)
		f.cfg.Scopes[0].Spend.WarnAt = []float64{0.5}
		wd := f.attach()
		require.NoError(f.t, admit(f.t, wd, requests(6)).Settle(requests(6)))
		f.pass(0)
		require.NoError(f.t, wd.Close())
		require.Equal(f.t, 1, warned)
		c, err := f.attach().Admit(context.Background(), "", requests(1))
		require.NoError(f.t, err)
		require.NoError(f.t, c.Settle(requests(1)))
		f.pass(0)
		require.Equal(f.t, 2, warned)
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
			require.Empty(f.t, f.events(watchdog.EventCancel))
		})
	}
	runFixture(t, "by too little for the call", func(f *fixture) {
		f.cfg.Budget.Spend = watchdog.Spend{Requests: 10, WarnAt: []float64{}}
		wd, operator := f.attach(), f.attach()
		require.NoError(f.t, operator.ExtendSpend(watchdog.Spend{Requests: 5}))
		r := refuse(f.t, wd, requests(20))
		require.EqualValues(f.t, 15, r.Allowed)
		require.Equal(f.t, watchdog.RequestsExceeded, wd.Stop().Code)
		require.Len(f.t, f.events(watchdog.EventCancel), 1)
	})
	runSynced(t, "and many calls at once", func(t *testing.T) {
		cfg := watchdog.Config{
			Store: &watchdog.Memory{}, Logger: quiet,
			Budget: watchdog.Budget{Spend: watchdog.Spend{Requests: 10, WarnAt: []float64{}}},
		}
		cfg.SpendStore = &slowSpend{}
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
