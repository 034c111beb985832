package watchdog_test

import (
	"context"
	"crypto/rand"
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
			runSynced(t, name, func(t *testing.T) {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				parent := &askedParent{Context: ctx}
				wd := attachTo(parent, t, watchdog.Run{}, watchdog.Config{
					PollOnly: true, Scopes: scopes, SpendStore: &watchdog.Memory{},
					Budget: watchdog.Budget{Spend: watchdog.Spend{Requests: 640, WarnAt: []float64{}}},
				})
				parent.asked = func() { // whether it has ended, after the run was asked
					parent.asked = nil
					require.NoError(t, wd.Close())
				}
				_, err := wd.Admit(context.Background(), "", requests(1))
				require.Nil(t, parent.asked)
				require.ErrorIs(t, err, watchdog.ErrEnded)
				for _, u := range wd.Usage() {
					require.Zero(t, u.Admitted, u)
				}
			})
		}
	})
	runSpend(t, "Usage tells after the end what was used", func(t *testing.T, _ *hangingSpend, attach attachRun) {
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
	runSpend(t, "what is settled before the rest is given back goes back with it", func(t *testing.T, store *hangingSpend, attach attachRun) {
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
			wd := guard(t, cfg)
			open := func(key string) (watchdog.Charge, weak.Pointer[watchdog.Watchdog]) {
				layer := openLayer(t, wd, "in", cfg.Budget)
				inner := openLayer(t, layer, "inner", cfg.Budget)
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

// TestKeys protects calls that are made again: their keys are those of one run in one process, and where they are not
// known any more a call is charged again, so that no limit is overspent.
func TestKeys(t *testing.T) {
	admitAs := func(t *testing.T, wd *watchdog.Watchdog, key string) watchdog.Charge {
		t.Helper()
		c, err := wd.Admit(context.Background(), key, requests(3))
		require.NoError(t, err)
		return c
	}
	limits := watchdog.Budget{Spend: watchdog.Spend{Requests: 100, WarnAt: []float64{}}}
	admitted := func(wd *watchdog.Watchdog) int64 { u := wd.Usage()[0]; return u.Used + u.Admitted }
	t.Run("not after a restart, with a store", func(t *testing.T) {
		for name, end := range map[string]func(c watchdog.Charge) error{
			"settled": func(c watchdog.Charge) error { return c.Settle(requests(3)) },
			"open":    func(watchdog.Charge) error { return nil },
		} {
			runFixture(t, name, func(f *fixture) {
				f.cfg.Budget = limits
				wd := f.attach()
				require.NoError(f.t, end(admitAs(f.t, wd, "k")))
				require.NoError(f.t, wd.Close())
				again := f.attach()
				admitAs(f.t, again, "k")
				require.EqualValues(f.t, 6, admitted(again), "charged again, and not less")
			})
		}
	})
}

// hourlyTeam is a scope of requests an hour.
func hourlyTeam(limit int64) []watchdog.SharedSpend {
	scopes := teamOf(limit)
	scopes[0].Period = watchdog.PeriodHour
	return scopes
}

// chargedInHour is what the scope is charged with in the hour that is now.
func (s *hangingSpend) chargedInHour(t *testing.T) int64 {
	t.Helper()
	slice := watchdog.Slice{ID: rand.Text(), Scope: "team", Period: watchdog.PeriodHour}
	g, err := s.memory.Take(context.Background(), slice)
	require.NoError(t, err)
	return g.Charged.Requests
}

// A forgetfulSpend carries out what it is asked and can lose its answers.
type forgetfulSpend struct {
	*hangingSpend
	loses bool
}

func (s *forgetfulSpend) Take(ctx context.Context, slice watchdog.Slice) (watchdog.Grant, error) {
	g, err := s.hangingSpend.Take(ctx, slice)
	if s.loses {
		return watchdog.Grant{}, errDiskFull
	}
	return g, err
}
