package idle_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/idle"
)

func TestWiden(t *testing.T) {
	bubble(t, "a tool of 100 ms inside a window of 600 ends at 100", func(t *testing.T) {
		ctx, timer := newTimer(t, idle.Config{Limit: 600 * time.Millisecond})
		pass(500 * time.Millisecond)
		defer timer.Widen(100 * time.Millisecond)()
		pass(100 * time.Millisecond)
		requireAlive(ctx, t, timer)
		pass(1)
		requireSilent(ctx, t, timer, 100*time.Millisecond+1, 100*time.Millisecond)
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
	bubble(t, "closing one twice counts once, and is no sign of life again", func(t *testing.T) {
		ctx, timer := newTimer(t, idle.Config{Limit: limit})
		narrow := timer.Widen(2 * limit)
		narrow()
		pass(limit)
		narrow()
		pass(1)
		requireSilent(ctx, t, timer, limit+1, limit)
	})
}

var ids = []string{"one", "two", "three"}

// TestModel compares random signs and stretches with the rule as it reads.
func TestModel(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			ctx, timer := newTimer(t, idle.Config{Limit: limit})
			m := model{last: time.Now(), open: map[any]time.Duration{}}
			narrow := map[int]func(){}
			for step := 0; ctx.Err() == nil; step++ {
				require.False(t, m.exceeded(), "seed %d, step %d", seed, step)
				length, id := time.Duration(random.Int64N(int64(3*limit)))+1, ids[random.IntN(len(ids))]
				how := []idle.Widening{idle.AtLeast}[:random.IntN(2)]
				switch random.IntN(6) {
				case 0:
					timer.Alive()
					m.last = time.Now()
				case 1:
					narrow[step] = timer.Widen(length, how...)
					m.begin(step, length, how)
				case 2:
					timer.Begin(id, length, how...)
					m.begin(id, length, how)
				case 3:
					timer.End(id)
					m.end(id)
				default:
					for i, one := range narrow {
						one()
						delete(narrow, i)
						m.end(i)
						break
					}
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
	open map[any]time.Duration
}

func (m *model) begin(key any, length time.Duration, how []idle.Widening) {
	if len(how) > 0 {
		length = max(length, limit)
	}
	m.open[key], m.last = length, time.Now()
}

func (m *model) end(key any) {
	if _, open := m.open[key]; open {
		delete(m.open, key)
		m.last = time.Now()
	}
}

func (m *model) exceeded() bool {
	longest := limit
	if len(m.open) > 0 {
		longest = slices.Max(slices.Collect(maps.Values(m.open)))
	}
	return time.Since(m.last) > longest
}
