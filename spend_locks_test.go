package watchdog_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/loop"
)

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
		"Step": func() {
			_ = wd.Step(loop.Step{Tool: "x", Input: []byte(rand.Text()), Outcome: []byte("2")}) // no loop
		},
	}
}

// TestSpendNeverWaits protects the hot path from stores that hang: what is there is drawn on, and everything else is
// for others to wait for.
func TestSpendNeverWaits(t *testing.T) {
	for name, pollOnly := range map[string]bool{"with a timer": false, "without one": true} {
		runSynced(t, name, func(t *testing.T) {
			store, spend := &flakyStore{}, &hangingSpend{}
			cfg := watchdog.Config{
				Store: store, SpendStore: spend, Logger: quiet, PollOnly: pollOnly, Scopes: teamOf(64_000),
				Budget: watchdog.Budget{Spend: watchdog.Spend{Requests: 64_000, WarnAt: []float64{}}},
			}
			wd := guard(t, cfg)
			layer := openLayer(t, wd, "in", watchdog.Budget{Spend: watchdog.Spend{Requests: 64_000}})
			hang := make(chan struct{})
			store.set(func(s *flakyStore) { s.hang = hang })
			spend.set(func(s *hangingSpend) { s.hang = hang })
			if !pollOnly { // a slice is being taken, and a call waits for it
				go func() { _, _ = layer.Admit(context.Background(), "", requests(2000)) }()
				synctest.Wait()
			}
			began := time.Now()
			for range 3 {
				for what, call := range spendCalls(layer, 1) {
					call()
					require.Zero(t, time.Since(began), what)
				}
			}
			require.Positive(t, wd.Usage()[0].Used)
			store.set(func(s *flakyStore) { s.hang = nil })
			spend.set(func(s *hangingSpend) { s.hang = nil })
			close(hang)
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
	for what, call := range spendCalls(wd, 0) { // of nothing: a call of more may wait for the slice that is taken here
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

// A probedStore is a store of events and of spend that is the host's code.
type probedStore struct {
	watchdog.Memory
	t *testing.T
	p *probe
}

func (s *probedStore) Append(ctx context.Context, events ...watchdog.Event) error {
	s.p.at(s.t, "Append")
	return s.Memory.Append(ctx, events...)
}

func (s *probedStore) Take(ctx context.Context, slice watchdog.Slice) (watchdog.Grant, error) {
	s.p.at(s.t, "Take")
	return s.Memory.Take(ctx, slice)
}

func (s *probedStore) Return(ctx context.Context, id string, unused watchdog.Totals) error {
	s.p.at(s.t, "Return")
	return s.Memory.Return(ctx, id, unused)
}

// TestSpendLocks protects the host's code from the locks of a ledger and of what it shares: none is held while it runs. A lock
// that is held makes the bubble stand still.
func TestSpendLocks(t *testing.T) {
	for name, pollOnly := range map[string]bool{"with a timer": false, "without one": true} {
		runSynced(t, name, func(t *testing.T) {
			p := &probe{seen: map[string]int{}, busy: map[string]bool{}}
			store := &probedStore{t: t, p: p}
			retry := []watchdog.DirectiveKind{watchdog.DirectiveRetry}
			var log bytes.Buffer
			cfg := watchdog.Config{
				Store: store, SpendStore: store, PollOnly: pollOnly, Scopes: hourlyTeam(640),
				Logger:    slog.New(probedLog{slog.NewTextHandler(&log, nil), t, p}),
				OnWarning: func(watchdog.Warning) { p.at(t, "OnWarning") },
				OnSignal:  func(watchdog.Signal) { p.at(t, "OnSignal") },
				Budget: watchdog.Budget{
					WallClock: watchdog.NoLimit,
					Spend:     watchdog.Spend{Requests: 640, WarnAt: []float64{0.5}, Reserve: watchdog.Totals{Requests: 5}},
					Ladders:   watchdog.Ladders{Requests: retry, Loop: retry},
				},
			}
			wd := guard(t, cfg)
			wd.Subscribe(func(watchdog.Directive) { p.at(t, "Subscribe") })
			p.mu.Lock()
			p.wd = wd
			p.mu.Unlock()

			require.NoError(t, admit(t, wd, requests(50)).Settle(requests(400))) // owes, warns
			synctest.Wait()
			require.NoError(t, admit(t, wd, requests(50)).Void())
			refuse(t, wd, requests(640)) // wraps up
			synctest.Wait()
			refuse(t, wd, requests(640)) // asks
			synctest.Wait()
			for range 5 {
				wd.Step(loop.Step{Tool: "grep", Input: []byte(`{}`), Outcome: []byte(`{}`), Class: loop.Look})
			}
			synctest.Wait()
			time.Sleep(time.Hour)
			require.NoError(t, wd.ExtendSpend(watchdog.Spend{Requests: 640}))
			admit(t, wd, requests(100)) // of the new hour
			synctest.Wait()
			p.mu.Lock()
			seen := p.seen
			p.mu.Unlock()
			for _, place := range []string{"Append", "Take", "Return", "OnWarning", "OnSignal", "Subscribe"} {
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
