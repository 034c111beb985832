package watchdog_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/racing"
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
			require.False(f.t, hasFired(wd))
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

// TestNegativeAmount protects what is open and used from an amount that is an error.
func TestNegativeAmount(t *testing.T) {
	inFixture(t, func(f *fixture) {
		f.cfg.Budget.Spend = watchdog.Spend{Requests: 10, WarnAt: []float64{}}
		wd := f.attach()
		c := admit(f.t, wd, requests(8))
		require.ErrorIs(f.t, c.Settle(requests(-1)), watchdog.ErrInvalid)
		_, err := wd.Admit(context.Background(), "", requests(-1))
		require.ErrorIs(f.t, err, watchdog.ErrInvalid)
		require.EqualValues(f.t, 8, wd.Usage()[0].Admitted)
	})
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
					Store: store, Logger: quiet, PollOnly: true, ObserveOnly: observe, Budget: watchdog.Budget{Spend: limit},
				}
				wd := guard(t, cfg)
				layer := wd
				for range 27 {
					layer = openLayer(t, layer, "in", watchdog.Budget{Spend: limit})
				}
				goOn := store.hangs()
				began := time.Now()
				test(t, layer)
				require.LessOrEqual(t, time.Since(began), watchdog.DefaultRecordTimeout)
				goOn()
			})
		}
	}
}

// A curiousKeeper looks at what its run has used from the moment that it keeps it.
type curiousKeeper struct {
	stop chan struct{}
	all  sync.WaitGroup
}

func (*curiousKeeper) Start(context.Context, string) (time.Time, error) { return time.Time{}, nil }

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
			Store: &watchdog.Memory{}, Keeper: k, Budget: watchdog.Budget{Spend: watchdog.Spend{Tokens: 100}},
		})
		require.NoError(t, err)
		close(k.stop)
		k.all.Wait()
		require.Len(t, wd.Usage(), 1)
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
		require.Len(t, f.events(event.Progress), 1)
		wd = f.attach()
		refuse(t, wd, requests(6))
		f.pass(0)
		require.Equal(t, []string{"retry 1"}, polled(wd))
	})
}

// TestSpendLargest protects a run that is only observed from the largest amounts: what is voided is admitted no more.
func TestSpendLargest(t *testing.T) {
	largest := watchdog.Amount{
		InputTokens: math.MaxInt64, OutputTokens: math.MaxInt64, Requests: math.MaxInt64, Turns: math.MaxInt64,
		ToolCalls: math.MaxInt64, Tool: "rm", Cost: euros(math.MaxInt64),
	}
	limits := watchdog.Spend{
		InputTokens: 10, OutputTokens: 10, Tokens: 10, Requests: 10, Turns: 10, ToolCalls: 10, Cost: euros(10),
		Tools: map[string]int64{"rm": 10},
	}
	requireNoneAdmitted := func(t *testing.T, wd *watchdog.Watchdog) {
		t.Helper()
		require.NotEmpty(t, wd.Usage())
		for _, u := range wd.Usage() {
			require.Zero(t, u.Admitted, u)
		}
	}
	wd := guard(t, watchdog.Config{ObserveOnly: true, Budget: watchdog.Budget{Spend: limits}})
	layer := openLayer(t, wd, "in", watchdog.Budget{Spend: limits})
	for range 3 {
		first, second := admit(t, layer, largest), admit(t, wd, largest)
		require.EqualValues(t, math.MaxInt64, wd.Usage()[0].Admitted)
		require.NoError(t, first.Void())
		require.EqualValues(t, math.MaxInt64, wd.Usage()[0].Admitted)
		require.NoError(t, second.Void())
		requireNoneAdmitted(t, wd)
		requireNoneAdmitted(t, layer)
	}
	for _, u := range wd.Usage() {
		require.Zero(t, u.Used, u)
	}
}

// TestNoneIsNotWarnedOf protects a host from being told that four fifths of nothing are used.
func TestNoneIsNotWarnedOf(t *testing.T) {
	inFixture(t, func(f *fixture) {
		var warned []string
		f.cfg.OnWarning = func(w watchdog.Warning) { warned = append(warned, w.Usage.String()) }
		f.cfg.Budget.Spend = watchdog.Spend{
			InputTokens: watchdog.None, CallInput: watchdog.None, Cost: euros(watchdog.None), Errors: watchdog.None,
			Requests: 10, Turns: watchdog.None, Tools: map[string]int64{"rm": watchdog.None},
		}
		wd := f.attach()
		require.NoError(t, admit(t, wd, watchdog.Amount{OutputTokens: 1}).Settle(watchdog.Amount{OutputTokens: 1}))
		f.pass(0)
		require.Empty(t, warned)
		require.Empty(t, f.events(event.Warning))
		require.NoError(t, wd.ExtendSpend(watchdog.Spend{Turns: 10}))
		require.NoError(t, admit(t, wd, watchdog.Amount{Turns: 8}).Settle(watchdog.Amount{Turns: 8}))
		f.pass(0)
		require.Equal(t, []string{"turns: 8 of 10 used"}, warned)
	})
}

// TestAdmitAllocates protects a host that admits each call from garbage: without a key there is none.
func TestAdmitAllocates(t *testing.T) {
	if racing.Enabled {
		t.Skip("the race detector allocates")
	}
	ctx := context.Background()
	limits := watchdog.Budget{Spend: watchdog.Spend{
		InputTokens: 1 << 60, Requests: 1 << 60, Tools: map[string]int64{"rm": 1 << 60}, Cost: euros(1 << 60),
	}}
	most := watchdog.Amount{InputTokens: 10, Requests: 1, ToolCalls: 1, Tool: "rm", Cost: euros(3), Result: watchdog.ResultOK}
	wd := guard(t, watchdog.Config{Budget: limits, Logger: quiet})
	for layers := range 3 {
		t.Run(fmt.Sprintf("%d layers", layers), func(t *testing.T) {
			require.Zero(t, testing.AllocsPerRun(1000, func() {
				c, err := wd.Admit(ctx, "", most)
				if err == nil {
					err = c.Settle(most)
				}
				if err != nil {
					t.Fatal(err)
				}
			}))
		})
		wd = openLayer(t, wd, "l", limits)
	}
}

// TestSpendClosed protects what a run has spent from calls that come with its end, and after it.
func TestSpendClosed(t *testing.T) {
	spend := watchdog.Spend{Requests: 640, WarnAt: []float64{}}
	runSynced(t, "a call that began before the end is not admitted after it", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		parent := &askedParent{Context: ctx}
		cfg := watchdog.Config{PollOnly: true, Budget: watchdog.Budget{Spend: spend}}
		wd := attachTo(parent, t, watchdog.Run{}, cfg)
		parent.asked = func() { // whether it has ended, after the run was asked
			parent.asked = nil
			require.NoError(t, wd.Close())
		}
		_, err := wd.Admit(context.Background(), "", requests(1))
		require.Nil(t, parent.asked)
		require.ErrorIs(t, err, watchdog.ErrEnded)
		require.Zero(t, wd.Usage()[0].Admitted)
	})
	t.Run("Usage tells after the end what was used, and what is settled then", func(t *testing.T) {
		wd := guard(t, watchdog.Config{Budget: watchdog.Budget{Spend: spend}})
		late := admit(t, wd, requests(2))
		require.NoError(t, admit(t, wd, requests(7)).Settle(requests(7)))
		require.NoError(t, wd.Close())
		require.EqualValues(t, 7, wd.Usage()[0].Used)
		require.NoError(t, late.Settle(requests(3)))
		require.EqualValues(t, 10, wd.Usage()[0].Used)
		require.Zero(t, wd.Usage()[0].Admitted)
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
	var cfg watchdog.Config
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
}

// TestKeys protects calls that are made again: their keys are those of one run in one process, and where they are not
// known any more a call is charged again, so that no limit is overspent.
func TestKeys(t *testing.T) {
	for name, end := range map[string]func(c watchdog.Charge) error{
		"settled": func(c watchdog.Charge) error { return c.Settle(requests(3)) },
		"open":    func(watchdog.Charge) error { return nil },
	} {
		runFixture(t, "not after a restart, "+name, func(f *fixture) {
			f.cfg.Budget.Spend = watchdog.Spend{Requests: 100, WarnAt: []float64{}}
			for _, charged := range []int64{3, 6} { // again, and not less
				wd := f.attach()
				c, err := wd.Admit(context.Background(), "k", requests(3))
				require.NoError(f.t, err)
				require.NoError(f.t, end(c))
				require.Equal(f.t, charged, wd.Usage()[0].Used+wd.Usage()[0].Admitted)
				require.NoError(f.t, wd.Close())
				f.cfg.Budget.Spend.Used = wd.Usage()
			}
		})
	}
}

// TestAdmitEnded protects a run whose parent has ended from a call, also before anybody has noticed.
func TestAdmitEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, end := context.WithCancelCause(context.Background())
		wd := attachTo(silentParent{parent}, t, watchdog.Run{}, watchdog.Config{PollOnly: true})
		layer := openLayer(t, wd, "l", watchdog.Budget{})
		end(errHostGone)
		_, err := layer.Admit(context.Background(), "", requests(1))
		require.ErrorIs(t, err, watchdog.ErrEnded)
		require.ErrorIs(t, err, errHostGone)
	})
}

// A silentParent is of a type of the host's, which tells nobody of its end.
type silentParent struct{ context.Context }

func (silentParent) AfterFunc(func()) (stop func() bool) { return func() bool { return true } }

// TestRefusedSmallest protects that nobody is told to make smaller what is as small as it can be.
func TestRefusedSmallest(t *testing.T) {
	refused := watchdog.Refused{Usage: watchdog.Usage{Run: "r", Limit: "requests", Used: 3, Allowed: 3, Needed: 1}}
	require.EqualError(t, &refused,
		"call of run r refused: requests: 0 of 3 left, and this call may need 1; extend the limit to make it")
	refused.Needed = 2
	require.EqualError(t, &refused,
		"call of run r refused: requests: 0 of 3 left, and this call may need 2; make it smaller, or extend the limit")
}
