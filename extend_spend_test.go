package watchdog_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

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
	t.Run("what cannot be extended is an error, and is not recorded", func(t *testing.T) {
		inFixture(t, func(f *fixture) {
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
				require.ErrorIs(t, err, watchdog.ErrInvalid)
				require.ErrorContains(t, err, text)
			}
			require.Empty(t, f.events(watchdog.EventExtend))
			require.Equal(t, []int64{10, 10, 10}, allowed(wd))
		})
	})
	t.Run("each limit by its own, again and again", func(t *testing.T) {
		for name, store := range map[string]bool{"with a store": true, "without one": false} {
			t.Run(name, func(t *testing.T) {
				inFixture(t, func(f *fixture) {
					f.cfg.Budget.Spend, f.cfg.Budget.WallClock = both, time.Hour
					if !store {
						f.cfg.Store = nil
					}
					wd := f.attach()
					require.NoError(t, wd.Extend(time.Hour))
					require.NoError(t, wd.ExtendSpend(watchdog.Spend{Requests: 5}))
					require.NoError(t, wd.ExtendSpend(watchdog.Spend{Requests: 5}))
					require.NoError(t, wd.ExtendSpend(watchdog.Spend{Turns: 1, Tools: map[string]int64{"rm": 2}}))
					require.Equal(t, []int64{20, 11, 12}, allowed(wd))
					require.Equal(t, 2*time.Hour, wd.Remaining(), "the time stays")
				})
			})
		}
	})
	t.Run("its event has what was extended only", func(t *testing.T) {
		inFixture(t, func(f *fixture) {
			f.cfg.Budget.Spend = both
			require.NoError(t, f.attach().ExtendSpend(watchdog.Spend{Turns: 3}))
			var payload struct{ Spend []map[string]any }
			require.NoError(t, json.Unmarshal(f.events(watchdog.EventExtend)[0].Payload, &payload))
			require.Len(t, payload.Spend, 1)
			require.Equal(t, "turns", payload.Spend[0]["limit"])
			require.EqualValues(t, 13, payload.Spend[0]["allowed"])
		})
	})
	t.Run("beside what another process gave", func(t *testing.T) {
		inFixture(t, func(f *fixture) {
			f.cfg.Budget.Spend = both
			wd, operator := f.attach(), f.attach()
			require.NoError(t, operator.ExtendSpend(watchdog.Spend{Requests: 5}))
			require.NoError(t, wd.ExtendSpend(watchdog.Spend{Requests: 3}))
			require.Equal(t, []int64{18, 10, 10}, allowed(wd))
		})
	})
	t.Run("a run that is late has ended", func(t *testing.T) {
		inFixture(t, func(f *fixture) {
			f.cfg.Budget.Spend, f.cfg.Budget.WallClock, f.cfg.PollOnly = both, time.Minute, true
			wd := f.attach()
			f.pass(2 * time.Minute)
			require.ErrorIs(t, wd.ExtendSpend(watchdog.Spend{Requests: 5}), watchdog.ErrEnded)
			require.Empty(t, f.events(watchdog.EventExtend))
			require.Len(t, f.events(watchdog.EventCancel), 1)
		})
	})
	t.Run("a trace has it", func(t *testing.T) {
		inFixture(t, func(f *fixture) {
			var more []int64
			f.cfg.Budget.Spend = both
			f.cfg.OnSignal = func(s watchdog.Signal) {
				if s.Kind == watchdog.SignalExtend {
					more = append(more, s.More)
				}
			}
			require.NoError(t, f.attach().ExtendSpend(watchdog.Spend{Requests: 5, Turns: 2}))
			require.Equal(t, []int64{5, 2}, more)
		})
	})
}

// TestSpendTakenUp protects a run that is attached again from what the window asked before: of that limit, and no
// other.
func TestSpendTakenUp(t *testing.T) {
	t.Run("a ladder goes on where it stood, whatever the order of its events", func(t *testing.T) {
		for range 20 {
			inFixture(t, func(f *fixture) {
				f.cfg.Budget.Spend = watchdog.Spend{Requests: 5, WarnAt: []float64{}}
				f.cfg.Budget.Ladders.Requests = many(watchdog.DirectiveRetry, 6)
				wd := f.attach()
				for range 5 {
					refuse(t, wd, requests(6))
					f.pass(0)
				}
				require.NoError(t, wd.Close())
				wd = f.attach()
				refuse(t, wd, requests(6))
				f.pass(0)
				require.Equal(t, []string{"retry 6"}, polled(wd))
			})
		}
	})
	t.Run("and that of another limit as large does not", func(t *testing.T) {
		inFixture(t, func(f *fixture) {
			f.cfg.Budget.Spend = watchdog.Spend{Requests: 5, Turns: 5, WarnAt: []float64{}}
			f.cfg.Budget.Ladders.Requests = many(watchdog.DirectiveRetry, 3)
			f.cfg.Budget.Ladders.Turns = many(watchdog.DirectiveRetry, 3)
			wd := f.attach()
			refuse(t, wd, requests(6))
			refuse(t, wd, requests(6))
			f.pass(0)
			require.NoError(t, wd.Close())
			wd = f.attach()
			refuse(t, wd, watchdog.Amount{Turns: 6})
			f.pass(0)
			require.Equal(t, []string{"retry 1"}, polled(wd))
		})
	})
	t.Run("an hour is warned of again, because the events do not say in which hour it was", func(t *testing.T) {
		inFixture(t, func(f *fixture) {
			warned := 0
			f.cfg.OnWarning = func(watchdog.Warning) { warned++ }
			f.cfg.Scopes = hourlyTeam(10)
			f.cfg.Scopes[0].Spend.WarnAt = []float64{0.5}
			wd := f.attach()
			require.NoError(t, admit(t, wd, requests(6)).Settle(requests(6)))
			f.pass(0)
			require.NoError(t, wd.Close())
			require.Equal(t, 1, warned)
			c, err := f.attach().Admit(context.Background(), "", requests(1))
			require.NoError(t, err)
			require.NoError(t, c.Settle(requests(1)))
			f.pass(0)
			require.Equal(t, 2, warned)
		})
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
		t.Run(name, func(t *testing.T) {
			inFixture(t, func(f *fixture) {
				f.cfg.Budget.Spend = watchdog.Spend{Requests: 10, WarnAt: []float64{}}
				set(f)
				most, more := requests(8), watchdog.Spend{Requests: 100}
				if f.cfg.Budget.Spend.Tools != nil {
					most, more = watchdog.Amount{ToolCalls: 1, Tool: "rm"}, watchdog.Spend{Tools: map[string]int64{"rm": 9}}
				}
				wd, operator := f.attach(), f.attach()
				layer, err := wd.Layer("in", watchdog.Budget{})
				require.NoError(t, err)
				admit(t, layer, most)
				require.NoError(t, operator.ExtendSpend(more))
				for range 9 {
					admit(t, layer, most)
				}
				f.live(wd)
				require.Empty(t, f.events(watchdog.EventCancel))
			})
		})
	}
	t.Run("by too little for the call", func(t *testing.T) {
		inFixture(t, func(f *fixture) {
			f.cfg.Budget.Spend = watchdog.Spend{Requests: 10, WarnAt: []float64{}}
			wd, operator := f.attach(), f.attach()
			require.NoError(t, operator.ExtendSpend(watchdog.Spend{Requests: 5}))
			r := refuse(t, wd, requests(20))
			require.EqualValues(t, 15, r.Allowed)
			require.Equal(t, watchdog.RequestsExceeded, wd.Stop().Code)
			require.Len(t, f.events(watchdog.EventCancel), 1)
		})
	})
	t.Run("and many calls at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cfg := watchdog.Config{
				Store: &watchdog.Memory{}, Logger: quiet,
				Budget: watchdog.Budget{Spend: watchdog.Spend{Requests: 10, WarnAt: []float64{}}},
			}
			cfg.SpendStore = &slowSpend{}
			run := watchdog.Run{ID: "s-1", StartedAt: time.Now()}
			wd, err := watchdog.New(context.Background(), run, cfg)
			require.NoError(t, err)
			defer wd.Close()
			operator, err := watchdog.New(context.Background(), run, cfg)
			require.NoError(t, err)
			defer operator.Close()
			require.NoError(t, operator.ExtendSpend(watchdog.Spend{Requests: 54}))
			require.Zero(t, refusedTogether(wd, 64, requests(1)))
			requireRunning(t, wd)
		})
	})
}

// A plainStore is a store of events and nothing else.
type plainStore struct{ watchdog.EventStore }
