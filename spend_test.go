package watchdog_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

func tokens(in, out int64) watchdog.Amount {
	return watchdog.Amount{InputTokens: in, OutputTokens: out}
}

func euros(micros int64) watchdog.Money { return watchdog.Money{Micros: micros, Currency: "EUR"} }

func TestAdmit(t *testing.T) {
	for name, c := range map[string]struct {
		limits watchdog.Spend
		fits   watchdog.Amount
		more   watchdog.Amount
		limit  string
		code   watchdog.StopReason
	}{
		"tokens in":  {watchdog.Spend{InputTokens: 100}, tokens(100, 999), tokens(1, 0), "input_tokens", watchdog.TokensExceeded},
		"tokens out": {watchdog.Spend{OutputTokens: 100}, tokens(999, 100), tokens(0, 1), "output_tokens", watchdog.TokensExceeded},
		"tokens":     {watchdog.Spend{Tokens: 100}, tokens(40, 60), tokens(0, 1), "tokens", watchdog.TokensExceeded},
		"the input of a call": {
			watchdog.Spend{CallInput: 100}, tokens(100, 0), tokens(101, 0), "call_input", watchdog.CallInputExceeded,
		},
		"cost": {
			watchdog.Spend{Cost: euros(100)}, watchdog.Amount{Cost: euros(100)}, watchdog.Amount{Cost: euros(1)},
			"cost", watchdog.CostExceeded,
		},
		"requests": {
			watchdog.Spend{Requests: 2}, watchdog.Amount{Requests: 2}, watchdog.Amount{Requests: 1}, "requests",
			watchdog.RequestsExceeded,
		},
		"turns": {
			watchdog.Spend{Turns: 2}, watchdog.Amount{Turns: 2}, watchdog.Amount{Turns: 1}, "turns", watchdog.TurnsExceeded,
		},
		"tool calls": {
			watchdog.Spend{ToolCalls: 2}, watchdog.Amount{ToolCalls: 2}, watchdog.Amount{ToolCalls: 1, Tool: "rm"}, "tool_calls",
			watchdog.ToolCallsExceeded,
		},
		"calls of one tool": {
			watchdog.Spend{Tools: map[string]int64{"rm": 2}}, watchdog.Amount{ToolCalls: 2, Tool: "rm"},
			watchdog.Amount{ToolCalls: 1, Tool: "rm"}, "tool_calls", watchdog.ToolCallsExceeded,
		},
		"nothing at all": {
			watchdog.Spend{Tools: map[string]int64{"rm": watchdog.None}}, watchdog.Amount{ToolCalls: 9, Tool: "ls"},
			watchdog.Amount{ToolCalls: 1, Tool: "rm"}, "tool_calls", watchdog.ToolCallsExceeded,
		},
	} {
		runFixture(t, name, func(f *fixture) {
			f.cfg.Budget.Spend = c.limits
			wd := f.attach()
			ctx := context.Background()
			first, err := wd.Admit(ctx, "", c.fits)
			require.NoError(f.t, err, "at the limit it fits")
			_, fired := wd.Fired()
			require.False(f.t, fired)
			_, err = wd.Admit(ctx, "", c.more)
			var refused *watchdog.Refused
			require.ErrorAs(f.t, err, &refused)
			require.Equal(f.t, c.limit, refused.Limit)
			require.ErrorIs(f.t, err, c.code)
			require.Contains(f.t, err.Error(), "s-1")
			code, fired := wd.Fired()
			require.True(f.t, fired)
			require.Equal(f.t, c.code, code)
			stop := wd.Stop()
			require.NotNil(f.t, stop.Usage)
			require.Equal(f.t, refused.Usage, *stop.Usage)
			require.NoError(f.t, first.Settle(c.fits), "what was admitted can be settled after the end")
			_, err = wd.Admit(ctx, "", watchdog.Amount{})
			require.ErrorIs(f.t, err, watchdog.ErrEnded)
		})
	}
}

func requests(n int64) watchdog.Amount { return watchdog.Amount{Requests: n} }

func admit(t *testing.T, wd *watchdog.Watchdog, most watchdog.Amount) watchdog.Charge {
	t.Helper()
	c, err := wd.Admit(context.Background(), "", most)
	require.NoError(t, err)
	return c
}

func refuse(t *testing.T, wd *watchdog.Watchdog, most watchdog.Amount) *watchdog.Refused {
	t.Helper()
	_, err := wd.Admit(context.Background(), "", most)
	var refused *watchdog.Refused
	require.ErrorAs(t, err, &refused)
	return refused
}

func TestSettle(t *testing.T) {
	for name, test := range map[string]func(t *testing.T, f *fixture, wd *watchdog.Watchdog){
		"a negative amount is an error and changes nothing": func(t *testing.T, _ *fixture, wd *watchdog.Watchdog) {
			c := admit(t, wd, requests(8))
			require.ErrorIs(t, c.Settle(requests(-1)), watchdog.ErrInvalid)
			_, err := wd.Admit(context.Background(), "", requests(-1))
			require.ErrorIs(t, err, watchdog.ErrInvalid)
			require.EqualValues(t, 8, wd.Usage()[0].Admitted)
		},
	} {
		runFixture(t, name, func(f *fixture) {
			f.cfg.Budget.Spend = watchdog.Spend{Requests: 10, WarnAt: []float64{}}
			test(f.t, f, f.attach())
		})
	}
}

// TestSpendWarningObserved protects that a run that is only observed is warned of what it used at once, also if a call
// that did not fit has spent the limit before.
func TestSpendWarningObserved(t *testing.T) {
	inFixture(t, func(f *fixture) {
		var warned []watchdog.Warning
		f.cfg.OnWarning = func(w watchdog.Warning) { warned = append(warned, w) }
		f.cfg.ObserveOnly = true
		layer := openLayer(f.t, f.attach(), "step", watchdog.Budget{Spend: watchdog.Spend{Requests: 10}})
		call := admit(t, layer, requests(20))
		f.pass(0)
		require.Empty(t, warned)
		require.NoError(t, call.Settle(requests(12)))
		f.pass(0)
		require.Len(t, warned, 1)
	})
}

// TestSpendWindow protects what a window has spent from a host that keeps its start in whole seconds, and each window
// from what another one has spent.
func TestWindowOfSpend(t *testing.T) {
	const part = 234567 * time.Microsecond
	begin := func(f *fixture) *watchdog.Watchdog {
		f.cfg.Budget.Spend = watchdog.Spend{Requests: 64, WarnAt: []float64{}}
		f.run.StartedAt = noon.Add(part)
		f.pass(2 * part)
		wd := f.attach()
		admit(t, wd, requests(40))
		return wd
	}
	used := func(wd *watchdog.Watchdog) int64 { return wd.Usage()[0].Used }
	for name, test := range map[string]func(f *fixture){
		"a start in whole seconds is that of the window, before any event": func(f *fixture) {
			begin(f)
			for _, kept := range []time.Time{noon, noon.Add(part.Truncate(time.Millisecond)), noon.Add(part)} {
				f.run.StartedAt = kept
				require.EqualValues(t, 40, used(f.attach()), kept)
			}
			require.Empty(t, f.events(watchdog.EventResume))
		},
		"a resume within the second begins at zero, and is found again": func(f *fixture) {
			_, err := begin(f).Cancel(watchdog.Cancellation{Reason: "user_cancelled"})
			require.NoError(t, err)
			f.pass(part)
			resumed := f.resume()
			require.Equal(t, noon.Add(3*part), resumed.StartedAt())
			require.Zero(t, used(resumed))
			admit(t, resumed, requests(7))
			for _, kept := range []time.Time{noon.Add(part), noon, resumed.StartedAt()} {
				f.run.StartedAt = kept
				require.EqualValues(t, 7, used(f.attach()), kept)
			}
		},
	} {
		t.Run(name, func(t *testing.T) { inFixture(t, test) })
	}
}

// TestSpendLayersBound protects a caller without a timer from a wait for each of the runs around a layer: a bound is
// one of the whole.
func TestSpendLayersBound(t *testing.T) {
	limit := watchdog.Spend{Requests: 10, WarnAt: []float64{0.1}, Reserve: watchdog.Totals{Requests: 2}}
	settles := func(n int64) func(t *testing.T, layer *watchdog.Watchdog) {
		return func(t *testing.T, layer *watchdog.Watchdog) {
			require.NoError(t, admit(t, layer, requests(1)).Settle(requests(n)))
		}
	}
	for name, test := range map[string]func(t *testing.T, layer *watchdog.Watchdog){
		"a settle that trips all": settles(100), "a settle that warns of all": settles(2),
		"a refusal": func(t *testing.T, layer *watchdog.Watchdog) { refuse(t, layer, requests(9)) },
	} {
		for _, observe := range []bool{false, true} {
			if observe && name == "a refusal" {
				continue
			}
			runSynced(t, name, func(t *testing.T) {
				store := &flakyStore{}
				cfg := watchdog.Config{
					Store: store, SpendStore: &watchdog.Memory{}, Logger: quiet, PollOnly: true, ObserveOnly: observe,
					Budget: watchdog.Budget{Spend: limit}, Scopes: teamOf(10),
				}
				wd := guard(t, cfg)
				layer := wd
				for range 27 {
					layer = openLayer(t, layer, "in", watchdog.Budget{Spend: limit})
				}
				hang := make(chan struct{})
				store.set(func(s *flakyStore) { s.hang = hang })
				began := time.Now()
				test(t, layer)
				require.LessOrEqual(t, time.Since(began), watchdog.DefaultRecordTimeout)
				store.set(func(s *flakyStore) { s.hang = nil })
				close(hang)
			})
		}
	}
}

// A curiousKeeper looks at what its run has used from the moment that it keeps it.
type curiousKeeper struct {
	stop chan struct{}
	all  sync.WaitGroup
}

func (k *curiousKeeper) Keep(_ context.Context, w *watchdog.Watchdog) (watchdog.Attempt, error) {
	k.all.Go(func() {
		for {
			select {
			case <-k.stop:
				return
			default:
				w.Usage()
				w.Fired()
			}
		}
	})
	return watchdog.Attempt{Number: 1}, nil
}

func (*curiousKeeper) Ended(context.Context, *watchdog.Watchdog) {}

// TestSpendWhileAttaching protects the limits of a run that others look at before New has returned. The race detector
// finds the rest.
func TestSpendWhileAttaching(t *testing.T) {
	for range 50 {
		k := &curiousKeeper{stop: make(chan struct{})}
		wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "job", StartedAt: time.Now()}, watchdog.Config{
			Store: &watchdog.Memory{}, SpendStore: &watchdog.Memory{}, Keeper: k,
			Budget: watchdog.Budget{Spend: watchdog.Spend{Tokens: 100}},
			Scopes: []watchdog.SharedSpend{{Scope: "tenant", Spend: watchdog.Spend{Tokens: 1000}}},
		})
		require.NoError(t, err)
		close(k.stop)
		k.all.Wait()
		require.Len(t, wd.Usage(), 2)
		require.NoError(t, wd.Close())
	}
}

// TestSpendProgress protects a run that is attached again from a ladder that progress has put back.
func TestSpendProgress(t *testing.T) {
	inFixture(t, func(f *fixture) {
		f.cfg.Budget.Spend = watchdog.Spend{Requests: 5, WarnAt: []float64{}}
		f.cfg.Budget.Ladders.Requests = many(watchdog.DirectiveRetry, 3)
		wd := f.attach()
		refuse(t, wd, requests(6))
		refuse(t, wd, requests(6))
		f.pass(time.Second)
		wd.Progress()
		f.pass(time.Second)
		requireRunning(t, wd)
		require.Equal(t, []string{"retry 1", "retry 2"}, polled(wd))
		require.NoError(t, wd.Close())
		require.Len(t, f.events(watchdog.EventProgress), 1)
		wd = f.attach()
		refuse(t, wd, requests(6))
		f.pass(0)
		require.Equal(t, []string{"retry 1"}, polled(wd))
	})
}
