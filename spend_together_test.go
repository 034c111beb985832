package watchdog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// refusedTogether makes calls at once, and returns how many were refused.
func refusedTogether(wd *watchdog.Watchdog, n int, most watchdog.Amount) int {
	var refused atomic.Int64
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			_, err := wd.Admit(context.Background(), "", most)
			if r := (*watchdog.Refused)(nil); errors.As(err, &r) {
				refused.Add(1)
			}
		})
	}
	all.Wait()
	return int(refused.Load())
}

// TestRefusedTogether protects a run from many calls that do not fit at one moment: they are one trip.
func TestRefusedTogether(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			wd := guard(t, watchdog.Config{Budget: watchdog.Budget{
				Spend: watchdog.Spend{Requests: 100, Reserve: watchdog.Totals{Requests: 99}, WarnAt: []float64{}},
			}})
			require.GreaterOrEqual(t, refusedTogether(wd, 34, requests(3)), 1, "the first one is, and the reserve has room for 33")
			synctest.Wait()
			require.Equal(t, []string{"wrap_up 1"}, polled(wd))
			requireRunning(t, wd)
		})
	}
}

// TestDeepLayers protects whoever looks at a run inside many others whose parent has ended: each is asked once.
func TestDeepLayers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := guard(t, watchdog.Config{})
		session := wd
		for range 60 {
			wd = openLayer(t, wd, "l", watchdog.Budget{})
		}
		require.NoError(t, session.Close())
		done := make(chan error, 1)
		go func() { done <- wd.Context().Err() }()
		require.ErrorIs(t, <-done, context.Canceled)
	})
}

// TestSpendRaces has everything that spends done at once.
func TestSpendRaces(t *testing.T) {
	wd := guard(t, watchdog.Config{Logger: quiet, Budget: watchdog.Budget{
		Spend: watchdog.Spend{Requests: 1 << 16, ToolCalls: 100, Tools: map[string]int64{"rm": 50}},
	}})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() { spendAtOnce(wd, i) })
	}
	all.Wait()
	require.NoError(t, wd.Close())
	_, err := wd.Admit(context.Background(), "", requests(1))
	require.ErrorIs(t, err, watchdog.ErrEnded)
}

func spendAtOnce(wd *watchdog.Watchdog, i int) {
	for round := range 30 {
		layer, err := wd.Layer(fmt.Sprint("l", i), watchdog.Budget{Spend: watchdog.Spend{Requests: 1 << 14}})
		if err != nil {
			return
		}
		most := watchdog.Amount{Requests: int64(1 + round), ToolCalls: 1, Tool: "rm"}
		c, err := layer.Admit(context.Background(), fmt.Sprint(round%5), most)
		if err == nil && round%3 == 0 {
			_ = c.Void()
		}
		_ = wd.ExtendSpend(watchdog.Spend{ToolCalls: 10, Tools: map[string]int64{"rm": 10}})
		_, _ = wd.Usage(), layer.Usage()
		_, _ = wd.Fired()
		_ = c.Settle(watchdog.Amount{Requests: int64(1 + round*2)})
		if i == 7 && round == 20 {
			_ = wd.Close()
		}
		_ = layer.Close()
	}
}

// TestObserved protects that a run which is only observed says of each call that it did not fit, once.
func TestObserved(t *testing.T) {
	observed := func(name string, test func(b *fixture, wd *watchdog.Watchdog)) {
		runFixture(t, name, func(b *fixture) {
			b.cfg.ObserveOnly = true
			b.cfg.Budget.Spend = watchdog.Spend{
				OutputTokens: 1000, CallInput: 300, WarnAt: []float64{}, Used: []watchdog.Usage{{Limit: "output_tokens", Used: 900}},
			}
			b.cfg.Budget.Ladders.Tokens, b.cfg.Budget.Ladders.CallInput = many(retry, 9), many(retry, 9)
			test(b, b.attach())
		})
	}
	observed("a call that does not fit in two limits is one trip", func(b *fixture, wd *watchdog.Watchdog) {
		admit(b.t, wd, watchdog.Amount{InputTokens: 400, OutputTokens: 200})
		require.Equal(b.t, many(retry, 1), askedOf(wd))
		admit(b.t, wd, watchdog.Amount{OutputTokens: 200})
		require.Equal(b.t, many(retry, 1), askedOf(wd))
	})
	observed("a call that is voided is not among those that are open", func(b *fixture, wd *watchdog.Watchdog) {
		for range 3 {
			require.NoError(b.t, admit(b.t, wd, watchdog.Amount{OutputTokens: 200}).Void())
			d := poll(b.t, wd)
			require.EqualValues(b.t, 200, d.Usage.Needed)
			require.Zero(b.t, d.Usage.Admitted, "nor is the call itself")
		}
	})
}

// spendCalls are the methods that a call of a model makes.
func spendCalls(wd *watchdog.Watchdog, n int64) map[string]func() {
	return map[string]func(){
		"Admit and Settle": func() {
			if c, err := wd.Admit(context.Background(), "", requests(n)); err == nil {
				_ = c.Settle(requests(n))
			}
		},
		"Admit and Void": func() {
			if c, err := wd.Admit(context.Background(), "", requests(n)); err == nil {
				_ = c.Void()
			}
		},
		"Usage": func() { _ = wd.Usage() },
	}
}

// TestSpendNeverWaits protects the hot path from a store that hangs: that is for others to wait for.
func TestSpendNeverWaits(t *testing.T) {
	for name, pollOnly := range map[string]bool{"with a timer": false, "without one": true} {
		runSynced(t, name, func(t *testing.T) {
			store := &flakyStore{}
			wd := guard(t, watchdog.Config{
				Store: store, PollOnly: pollOnly,
				Budget: watchdog.Budget{Spend: watchdog.Spend{Requests: 64_000, WarnAt: []float64{}}},
			})
			layer := openLayer(t, wd, "in", watchdog.Budget{Spend: watchdog.Spend{Requests: 64_000}})
			goOn := store.hangs()
			began := time.Now()
			for range 3 {
				for what, call := range spendCalls(layer, 1) {
					call()
					require.Zero(t, time.Since(began), what)
				}
			}
			require.Positive(t, wd.Usage()[0].Used)
			goOn()
			synctest.Wait()
		})
	}
}

// A probe is the host's code: wherever it is called, it sees whether all of a run can be used meanwhile.
type probe struct {
	mu   sync.Mutex
	wd   *watchdog.Watchdog
	seen map[string]int
	busy map[string]bool // where what is asked is under way
}

// at uses the run on other goroutines, and fails the test if one of them does not return: the caller holds a lock.
func (p *probe) at(t *testing.T, place string) {
	p.mu.Lock()
	wd := p.wd
	if wd == nil || p.busy[place] || p.seen[place] == 20 { // what is asked here sets off more of the same
		p.mu.Unlock()
		return
	}
	p.busy[place] = true
	p.seen[place]++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.busy[place] = false
		p.mu.Unlock()
	}()
	for what, call := range spendCalls(wd, 0) { // of nothing
		done := make(chan struct{})
		go func() {
			defer close(done)
			call()
		}()
		select {
		case <-done:
		case <-time.After(time.Hour): // of the bubble: nothing moves for ever
			t.Errorf("%s does not return while %s is called", what, place)
			return
		}
	}
}

// A probedStore is a store that is the host's code.
type probedStore struct {
	watchdog.Memory
	t *testing.T
	p *probe
}

func (s *probedStore) Append(ctx context.Context, events ...watchdog.Event) error {
	s.p.at(s.t, "Append")
	return s.Memory.Append(ctx, events...)
}

// TestSpendLocks protects the host's code from the lock of a ledger: it is not held while that runs. A lock that is held
// makes the bubble stand still.
func TestSpendLocks(t *testing.T) {
	for name, pollOnly := range map[string]bool{"with a timer": false, "without one": true} {
		runSynced(t, name, func(t *testing.T) {
			p := &probe{seen: map[string]int{}, busy: map[string]bool{}}
			store := &probedStore{t: t, p: p}
			retry := []watchdog.DirectiveKind{watchdog.DirectiveRetry}
			var log bytes.Buffer
			cfg := watchdog.Config{
				Store: store, PollOnly: pollOnly,
				Logger:    slog.New(probedLog{slog.NewTextHandler(&log, nil), t, p}),
				OnWarning: func(watchdog.Warning) { p.at(t, "OnWarning") },
				Budget: watchdog.Budget{
					WallClock: watchdog.NoLimit,
					Spend:     watchdog.Spend{Requests: 640, WarnAt: []float64{0.5}, Reserve: watchdog.Totals{Requests: 5}},
					Ladders:   watchdog.Ladders{Requests: retry},
				},
			}
			wd := guard(t, cfg)
			wd.Subscribe(func(watchdog.Directive) { p.at(t, "Subscribe") })
			p.mu.Lock()
			p.wd = wd
			p.mu.Unlock()

			require.NoError(t, admit(t, wd, requests(50)).Settle(requests(400))) // warns
			synctest.Wait()
			require.NoError(t, admit(t, wd, requests(50)).Void())
			refuse(t, wd, requests(640)) // wraps up
			synctest.Wait()
			refuse(t, wd, requests(640)) // asks
			synctest.Wait()
			time.Sleep(time.Hour)
			require.NoError(t, wd.ExtendSpend(watchdog.Spend{Requests: 640}))
			admit(t, wd, requests(100))
			synctest.Wait()
			p.mu.Lock()
			seen := p.seen
			p.mu.Unlock()
			for _, place := range []string{"Append", "OnWarning", "Subscribe"} {
				require.Positive(t, seen[place], "%s is not called: %v", place, seen)
			}
			require.NoError(t, wd.Close())
			synctest.Wait()
		})
	}
}

// A probedLog is a handler of the host's.
type probedLog struct {
	slog.Handler
	t *testing.T
	p *probe
}

func (l probedLog) Handle(ctx context.Context, r slog.Record) error {
	l.p.at(l.t, "log")
	return l.Handler.Handle(ctx, r)
}
