package watchdog_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// TestSpendClosed protects what a run has spent, and its scopes, from calls that come with its end.
func TestSpendClosed(t *testing.T) {
	t.Run("a call that began before the end is not admitted after it", func(t *testing.T) {
		for name, scopes := range map[string][]watchdog.SharedSpend{"of a run alone": nil, "of a scope": teamOf(640)} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithCancel(context.Background())
					defer cancel()
					parent := &askedParent{Context: ctx}
					wd, err := watchdog.New(parent, watchdog.Run{}, watchdog.Config{
						Logger: quiet, PollOnly: true, Scopes: scopes, SpendStore: &watchdog.Memory{},
						Budget: watchdog.Budget{Spend: watchdog.Spend{Requests: 640, WarnAt: []float64{}}},
					})
					require.NoError(t, err)
					parent.asked = func() { // whether it has ended, after the run was asked
						parent.asked = nil
						require.NoError(t, wd.Close())
					}
					_, err = wd.Admit(context.Background(), "", requests(1))
					require.Nil(t, parent.asked)
					require.ErrorIs(t, err, watchdog.ErrEnded)
					for _, u := range wd.Usage() {
						require.Zero(t, u.Admitted, u)
					}
				})
			})
		}
	})
	t.Run("Usage tells after the end what was used", func(t *testing.T) {
		inSpendBubble(t, func(_ *hangingSpend, attach func(string, watchdog.Config) *watchdog.Watchdog) {
			spend := watchdog.Spend{Requests: 640, WarnAt: []float64{}}
			wd := attach("s-1", watchdog.Config{Scopes: teamOf(640), Budget: watchdog.Budget{Spend: spend}})
			require.NoError(t, admit(t, wd, requests(7)).Settle(requests(7)))
			require.NoError(t, wd.Close())
			again := attach("s-1", watchdog.Config{Scopes: teamOf(640), Budget: watchdog.Budget{Spend: spend}})
			require.NoError(t, admit(t, again, requests(2)).Settle(requests(2)))
			before := again.Usage()
			require.NoError(t, again.Close())
			require.Equal(t, before, again.Usage())
			require.EqualValues(t, 9, before[0].Used, "of the run, with what it used before the restart")
			require.EqualValues(t, 9, before[1].Used, "of the scope")
		})
	})
	t.Run("what is settled before the rest is given back goes back with it", func(t *testing.T) {
		inSpendBubble(t, func(store *hangingSpend, attach func(string, watchdog.Config) *watchdog.Watchdog) {
			scopes := append(hourlyTeam(6400), hourlyTeam(6400)...)
			scopes[0].Scope = "given back first"
			wd := attach("s-1", watchdog.Config{Scopes: scopes})
			c := admit(t, wd, requests(50))
			hang := make(chan struct{})
			store.set(func(s *hangingSpend) { s.hang = hang })
			go wd.Close()
			synctest.Wait()
			require.NoError(t, c.Settle(requests(10)))
			store.set(func(s *hangingSpend) { s.hang = nil })
			close(hang)
			synctest.Wait()
			require.EqualValues(t, 10, store.chargedInHour(t))
		})
	})
}

// An askedParent notices that it is asked whether it has ended.
type askedParent struct {
	context.Context
	asked func()
}

func (p *askedParent) Err() error {
	if p.asked != nil {
		p.asked()
	}
	return p.Context.Err()
}

// TestClosedLayerIsForgotten protects the memory of a session from layers that are closed while calls of theirs are
// open: what is kept is the charge.
func TestClosedLayerIsForgotten(t *testing.T) {
	var told atomic.Int64
	for name, cfg := range map[string]watchdog.Config{
		"in memory":  {},
		"traced":     {OnSignal: func(watchdog.Signal) { told.Add(1) }},
		"of a scope": {SpendStore: &watchdog.Memory{}, Scopes: teamOf(1000)},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.Logger = quiet
			cfg.Budget.Spend = watchdog.Spend{Requests: 20, WarnAt: []float64{}}
			cfg.Budget.Ladders.Requests = many(watchdog.DirectiveWait, 1)
			wd, err := watchdog.New(context.Background(), watchdog.Run{}, cfg)
			require.NoError(t, err)
			defer wd.Close()
			open := func(key string) (watchdog.Charge, weak.Pointer[watchdog.Watchdog]) {
				layer, err := wd.Layer("in", cfg.Budget)
				require.NoError(t, err)
				inner, err := layer.Layer("inner", cfg.Budget)
				require.NoError(t, err)
				c, err := inner.Admit(context.Background(), key, requests(2))
				require.NoError(t, err)
				require.NoError(t, inner.Close())
				require.NoError(t, layer.Close())
				return c, weak.Make(layer)
			}
			first, one := open("key")
			second, two := open("")
			for range 10 {
				runtime.GC()
			}
			require.Nil(t, one.Value())
			require.Nil(t, two.Value())
			require.EqualValues(t, 4, wd.Usage()[0].Admitted)
			require.NoError(t, first.Settle(requests(3)))
			require.NoError(t, second.Void())
			require.EqualValues(t, 3, wd.Usage()[0].Used)
			require.Zero(t, wd.Usage()[0].Admitted)
			third, _ := open("")
			require.NoError(t, third.Settle(requests(30)))
			require.Eventually(t, func() bool { d, ok := wd.Poll(); return ok && d.Reason == watchdog.RequestsExceeded },
				10*time.Second, time.Millisecond, "the session is looked at all the same")
		})
	}
}
