package watchdog_test

import (
	"context"
	"encoding/json"
	"testing"
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
