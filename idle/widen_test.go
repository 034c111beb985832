package idle_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/idle"
)

func TestWiden(t *testing.T) {
	t.Run("a sub-agent that streams lives, one that is silent for longer than its limit ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, timer := newTimer(t, idle.Config{Limit: time.Second})
			defer timer.Widen(limit)()
			for range 2 * 60 * 60 * 50 {
				time.Sleep(20 * time.Millisecond)
				timer.Alive()
			}
			pass(limit)
			requireAlive(ctx, t, timer)
			pass(1)
			requireSilent(ctx, t, timer, limit+1, limit)
		})
	})
	t.Run("the longest limit that is open counts, and never less than the timer's own", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, timer := newTimer(t, idle.Config{Limit: limit})
			narrowLong := timer.Widen(3 * limit)
			defer timer.Widen(2 * limit)()
			defer timer.Widen(time.Second)()
			pass(3 * limit)
			requireAlive(ctx, t, timer)
			narrowLong()
			narrowLong()
			pass(2 * limit)
			requireAlive(ctx, t, timer)
			pass(1)
			requireSilent(ctx, t, timer, 2*limit+1, 2*limit)
		})
	})
	t.Run("both edges are life", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, timer := newTimer(t, idle.Config{Limit: limit})
			pass(limit)
			narrow := timer.Widen(2 * limit)
			pass(2 * limit)
			requireAlive(ctx, t, timer)
			narrow()
			pass(limit)
			requireAlive(ctx, t, timer)
			pass(1)
			requireSilent(ctx, t, timer, limit+1, limit)
		})
	})
	t.Run("0 or less and NoLimit end nothing while they are open", func(t *testing.T) {
		for _, none := range []time.Duration{0, -1, watchdog.NoLimit} {
			synctest.Test(t, func(t *testing.T) {
				ctx, timer := newTimer(t, idle.Config{Limit: limit})
				narrow := timer.Widen(none)
				pass(1000 * time.Hour)
				narrow()
				pass(limit)
				requireAlive(ctx, t, timer)
				pass(1)
				requireSilent(ctx, t, timer, limit+1, limit)
			})
		}
	})
	t.Run("closing one twice counts once, and is no sign of life again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, timer := newTimer(t, idle.Config{Limit: limit})
			narrow := timer.Widen(2 * limit)
			narrow()
			pass(limit)
			narrow()
			pass(1)
			requireSilent(ctx, t, timer, limit+1, limit)
		})
	})
}

// TestModel compares random signs and stretches with the rule as it reads.
func TestModel(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			ctx, timer := newTimer(t, idle.Config{Limit: limit})
			m := model{last: time.Now(), open: map[int]time.Duration{}}
			narrow := map[int]func(){}
			for step := 0; ctx.Err() == nil; step++ {
				require.False(t, m.exceeded(), "seed %d, step %d", seed, step)
				switch at := random.IntN(4); {
				case at == 0:
					timer.Alive()
					m.last = time.Now()
				case at == 1:
					m.open[step] = time.Duration(random.Int64N(int64(3*limit))) + 1
					narrow[step] = timer.Widen(m.open[step])
					m.last = time.Now()
				case len(narrow) > 0:
					for i, one := range narrow {
						one()
						delete(narrow, i)
						delete(m.open, i)
						break
					}
					m.last = time.Now()
				}
				pass(time.Duration(random.Int64N(int64(limit + limit/4))))
			}
			require.True(t, m.exceeded(), "seed %d", seed)
		})
	}
}

// A model is what a timer knows, and its rule in one line.
type model struct {
	last time.Time
	open map[int]time.Duration
}

func (m *model) exceeded() bool {
	longest := limit
	for _, one := range m.open {
		longest = max(longest, one)
	}
	return time.Since(m.last) > longest
}
