package watchdog_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
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
			assert.Equal(f.t, c.limit, refused.Limit)
			assert.ErrorIs(f.t, err, c.code)
			assert.Contains(f.t, err.Error(), "s-1")
			code, fired := wd.Fired()
			require.True(f.t, fired)
			assert.Equal(f.t, c.code, code)
			stop := wd.Stop()
			require.NotNil(f.t, stop.Usage)
			assert.Equal(f.t, refused.Usage, *stop.Usage)
			require.NoError(f.t, first.Settle(c.fits), "what was admitted can be settled after the end")
			_, err = wd.Admit(ctx, "", watchdog.Amount{})
			assert.ErrorIs(f.t, err, watchdog.ErrEnded)
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
		"a charge counts once": func(t *testing.T, _ *fixture, wd *watchdog.Watchdog) {
			c := admit(t, wd, requests(4))
			copied := c
			require.NoError(t, c.Settle(requests(4)))
			require.NoError(t, copied.Settle(requests(4)))
			require.NoError(t, copied.Void())
			require.NoError(t, copied.Settle(requests(9)))
			require.EqualValues(t, 6, wd.Usage()[0].Remaining())
			other := admit(t, wd, requests(1)) // has its place
			require.NoError(t, c.Settle(requests(9)))
			require.EqualValues(t, 5, wd.Usage()[0].Remaining())
			require.NoError(t, other.Void())
		},
		"what is used above the admission counts and trips": func(t *testing.T, f *fixture, wd *watchdog.Watchdog) {
			require.NoError(t, admit(t, wd, requests(8)).Settle(requests(10)))
			f.live(wd)
			require.NoError(t, admit(t, wd, requests(0)).Settle(requests(1)))
			code, fired := wd.Fired()
			require.True(t, fired)
			require.Equal(t, watchdog.RequestsExceeded, code)
			require.EqualValues(t, 11, wd.Stop().Usage.Used)
		},
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

// TestReserve protects that the first call that does not fit has the host asked to wrap up, and unlocks the reserve.
func TestReserve(t *testing.T) {
	inFixture(t, func(f *fixture) {
		f.cfg.Budget.Spend = watchdog.Spend{Requests: 10, Reserve: watchdog.Totals{Requests: 3}, WarnAt: []float64{}}
		wd := f.attach()
		require.NoError(t, admit(t, wd, requests(5)).Settle(requests(5)))
		refuse(t, wd, requests(3))
		f.pass(0)
		f.live(wd)
		d, ok := wd.Poll()
		require.True(t, ok)
		require.Equal(t, watchdog.DirectiveWrapUp, d.Kind)
		require.Equal(t, "requests", d.Usage.Limit)
		require.Len(t, f.events(watchdog.EventWrapUp), 1)
		require.NoError(t, admit(t, wd, requests(5)).Settle(requests(5)), "the reserve is open")
		f.live(wd)
		refuse(t, wd, requests(1))
		require.Equal(t, watchdog.RequestsExceeded, wd.Stop().Code)
	})
}

// TestSpendWarningObserved protects that a run that is only observed is warned of what it used at once, also if a call
// that did not fit has spent the limit before.
func TestSpendWarningObserved(t *testing.T) {
	inFixture(t, func(f *fixture) {
		var warned []watchdog.Warning
		f.cfg.OnWarning = func(w watchdog.Warning) { warned = append(warned, w) }
		f.cfg.ObserveOnly = true
		layer, err := f.attach().Layer("step", watchdog.Budget{Spend: watchdog.Spend{Requests: 10}})
		require.NoError(t, err)
		defer layer.Close()
		call := admit(t, layer, requests(20))
		f.pass(0)
		require.Empty(t, warned)
		require.NoError(t, call.Settle(requests(12)))
		f.pass(0)
		require.Len(t, warned, 1)
	})
}

// TestSpendRestart protects that what was spent, given and asked survives the process.
func TestSpendRestart(t *testing.T) {
	inFixture(t, func(f *fixture) {
		f.cfg.Budget.Spend = watchdog.Spend{
			Requests: 100, Tools: map[string]int64{"rm": 2}, Reserve: watchdog.Totals{Requests: 10},
		}
		wd := f.attach()
		require.NoError(t, admit(t, wd, requests(85)).Settle(requests(85)))
		require.NoError(t, admit(t, wd, watchdog.Amount{ToolCalls: 1, Tool: "rm"}).Settle(watchdog.Amount{ToolCalls: 1, Tool: "rm"}))
		refuse(t, wd, requests(20))
		f.pass(0)
		require.NoError(t, wd.ExtendSpend(watchdog.Spend{Requests: 5}))
		before := wd.Usage()
		require.EqualValues(t, 105, before[0].Allowed)
		require.NoError(t, wd.Close())

		again := f.attach()
		require.Equal(t, before, again.Usage())
		f.pass(0)
		require.Len(t, f.events(watchdog.EventWarning), 2, "of 80 % of 100 and of 105")
		require.NoError(t, admit(t, again, requests(10)).Settle(requests(10)), "only the reserve is left")
		f.pass(0)
		require.Len(t, f.events(watchdog.EventWrapUp), 2, "once before the extension and once after it")
		require.NoError(t, admit(t, again, requests(10)).Settle(requests(10)))
		refuse(t, again, requests(1))
		require.Equal(t, watchdog.RequestsExceeded, again.Stop().Code)
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
		"and after an event": func(f *fixture) {
			require.NoError(t, begin(f).Extend(time.Hour))
			f.run.StartedAt = noon
			require.EqualValues(t, 40, used(f.attach()))
		},
		"a host that opened a window a second later begins at zero": func(f *fixture) {
			begin(f)
			f.run.StartedAt = noon.Add(part + time.Second)
			f.pass(time.Second)
			require.Zero(t, used(f.attach()))
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
		"a resume by a clock that went back, too": func(f *fixture) {
			_, err := begin(f).Cancel(watchdog.Cancellation{Reason: "user_cancelled"})
			require.NoError(t, err)
			f.clock.step(-2 * part)
			resumed := f.resume()
			require.Equal(t, noon, resumed.StartedAt())
			require.Zero(t, used(resumed))
			admit(t, resumed, requests(7))
			require.EqualValues(t, 7, used(f.attach()))
		},
		"so does a window that the host opened after a cancel within the second": func(f *fixture) {
			_, err := begin(f).Cancel(watchdog.Cancellation{Reason: "user_cancelled"})
			require.NoError(t, err)
			f.pass(part)
			f.run.StartedAt = noon.Add(3 * part)
			second := f.attach()
			f.live(second)
			require.Zero(t, used(second))
			admit(t, second, requests(7))
			require.EqualValues(t, 7, used(f.attach()))
		},
	} {
		t.Run(name, func(t *testing.T) { inFixture(t, test) })
	}
}

// TestSpendLayersBound protects a caller without a timer from a wait for each of the runs around a layer: a bound is
// one of the whole.
func TestSpendLayersBound(t *testing.T) {
	limit := watchdog.Spend{Requests: 10, WarnAt: []float64{0.1}, Reserve: watchdog.Totals{Requests: 2}}
	for name, test := range map[string]func(t *testing.T, wd, layer *watchdog.Watchdog){
		"a settle that trips all": func(t *testing.T, _, layer *watchdog.Watchdog) {
			c := admit(t, layer, requests(1))
			began := time.Now()
			require.NoError(t, c.Settle(requests(100)))
			require.LessOrEqual(t, time.Since(began), watchdog.DefaultRecordTimeout)
		},
		"a settle that warns of all": func(t *testing.T, _, layer *watchdog.Watchdog) {
			c := admit(t, layer, requests(1))
			began := time.Now()
			require.NoError(t, c.Settle(requests(2)))
			require.LessOrEqual(t, time.Since(began), watchdog.DefaultRecordTimeout)
		},
		"a refusal": func(t *testing.T, _, layer *watchdog.Watchdog) {
			began := time.Now()
			refuse(t, layer, requests(9))
			require.LessOrEqual(t, time.Since(began), watchdog.DefaultRecordTimeout)
		},
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
				wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, cfg)
				require.NoError(t, err)
				defer wd.Close()
				layer := wd
				for range 27 {
					layer, err = layer.Layer("in", watchdog.Budget{Spend: limit})
					require.NoError(t, err)
				}
				hang := make(chan struct{})
				store.set(func(s *flakyStore) { s.hang = hang })
				test(t, wd, layer)
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
		assert.Len(t, wd.Usage(), 2)
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
