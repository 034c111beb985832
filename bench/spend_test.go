package bench_test

import (
	"context"
	"sync"
	"testing"

	"github.com/seed62658d38/watchdog"
)

// naiveSpend is what hosts write: a mutex with a key and four counters. It checks and adds in one go, and forgets when
// it is killed.
type naiveSpend struct {
	mu                        sync.Mutex
	open                      map[string]bool
	in, out, cost, calls, max int64
}

func (n *naiveSpend) admit(key string, in, out, cost int64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open[key] || n.in+in > n.max || n.out+out > n.max || n.cost+cost > n.max || n.calls >= n.max {
		return false
	}
	n.in, n.out, n.cost, n.calls = n.in+in, n.out+out, n.cost+cost, n.calls+1
	return true
}

// BenchmarkAdmit is an admission and its settling: by hand, in a run of its own, and with layers around it.
func BenchmarkAdmit(b *testing.B) {
	most := watchdog.Amount{
		InputTokens: 100, OutputTokens: 10, Cost: watchdog.Money{Micros: 5, Currency: "EUR"}, Requests: 1,
	}
	limits := watchdog.Spend{
		InputTokens: 1 << 60, OutputTokens: 1 << 60, Requests: 1 << 60,
		Cost: watchdog.Money{Micros: 1 << 60, Currency: "EUR"},
	}
	b.Run("by=hand", func(b *testing.B) {
		n := &naiveSpend{open: map[string]bool{"": false}, max: 1 << 60}
		inParallel(b, func() { n.admit("", 100, 10, 5) })
	})
	for _, layers := range []int{0, 1, 4} {
		b.Run("by=watchdog/layers="+string(rune('0'+layers)), func(b *testing.B) {
			ctx := context.Background()
			wd, err := watchdog.New(ctx, watchdog.Run{}, watchdog.Config{Budget: watchdog.Budget{Spend: limits}})
			if err != nil {
				b.Fatal(err)
			}
			defer wd.Close()
			for range layers {
				if wd, err = wd.Layer("layer", watchdog.Budget{Spend: limits}); err != nil {
					b.Fatal(err)
				}
				defer wd.Close()
			}
			inParallel(b, func() {
				c, err := wd.Admit(ctx, "", most)
				if err == nil {
					err = c.Settle(most)
				}
				if err != nil {
					b.Error(err)
				}
			})
		})
	}
}

// inParallel measures the call on one goroutine and on as many as there are cores.
func inParallel(b *testing.B, call func()) {
	b.Helper()
	b.Run("goroutines=1", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			call()
		}
	})
	b.Run("goroutines=all", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				call()
			}
		})
	})
}
