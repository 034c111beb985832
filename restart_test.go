package watchdog_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
)

// askedOf polls all directives that are there.
func askedOf(wd *watchdog.Watchdog) (kinds []watchdog.DirectiveKind) {
	for d, ok := wd.Poll(); ok; d, ok = wd.Poll() {
		kinds = append(kinds, d.Kind)
	}
	return kinds
}

// TestProgressIsRecordedSoon protects that progress which puts a ladder back survives a kill soon after it: nobody has
// to look, and it does not wait for the limit to be due again.
func TestProgressIsRecordedSoon(t *testing.T) {
	budget := watchdog.Budget{Idle: minute, Ladders: watchdog.Ladders{Idle: many(retry, 5)}}
	for name, pollOnly := range map[string]bool{"by the timer": false, "by the next poll": true} {
		cfg := watchdog.Config{Budget: budget, PollOnly: pollOnly}
		runBubble(t, name, cfg, func(t *testing.T, wd *watchdog.Watchdog, store *flakyStore) {
			after(minute + 1)
			require.Equal(t, many(retry, 1), askedOf(wd))
			wd.Progress()
			after(minute * 9 / 10)
			if pollOnly {
				wd.Fired()
			}
			require.Equal(t, 1, countEvents(t, store, watchdog.EventProgress))
		})
	}
}

// TestLadderAndItsEvents protects that where a ladder stands in memory and what its events say is the same, also for
// progress that comes while a directive is being given.
func TestLadderAndItsEvents(t *testing.T) {
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			store := &watchdog.Memory{}
			wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
				Store: store, Logger: quiet,
				Budget: watchdog.Budget{Idle: 200 * time.Microsecond, Ladders: watchdog.Ladders{
					Idle: slices.Repeat([]watchdog.DirectiveKind{retry}, 10_000),
				}},
			})
			if !assert.NoError(t, err) {
				return
			}
			for began := time.Now(); time.Since(began) < racing.Rounds(200*time.Millisecond, 5*time.Second); {
				time.Sleep(time.Duration(rand.IntN(800)) * time.Microsecond)
				wd.Progress()
			}
			assert.NoError(t, wd.Close())
			checkRungs(t, store)
		})
	}
	all.Wait()
}

// checkRungs checks that each directive is that of the rung after the highest one that is not put back. The times of
// events are by the machine's clock, which can be set between two of them: progress that is dated up to slack later than
// a directive may have been before it.
func checkRungs(t *testing.T, store watchdog.EventStore) {
	t.Helper()
	const slack = 5 * time.Millisecond
	events, err := store.Read(context.Background(), watchdog.AggregateType, "s-1")
	assert.NoError(t, err)
	resetAt, given := map[string]time.Time{}, []givenRung{}
	for _, e := range events {
		var p struct {
			Attempt int      `json:"attempt"`
			Resets  []string `json:"resets"`
		}
		assert.NoError(t, json.Unmarshal(e.Payload, &p))
		for _, id := range p.Resets {
			resetAt[id] = e.Timestamp
		}
		if e.Type == watchdog.EventRetry {
			given = append(given, givenRung{e.ID, e.Timestamp, p.Attempt})
		}
	}
	for i, g := range given {
		strict, late := 1, 1
		for _, before := range given[:i] {
			reset, put := resetAt[before.id]
			if !put || reset.After(g.at) {
				strict = max(strict, before.rung+1)
			}
			if !put || reset.After(g.at.Add(slack)) {
				late = max(late, before.rung+1)
			}
		}
		if !assert.Contains(t, []int{strict, late}, g.rung, "directive %d of %d", i+1, len(given)) {
			return
		}
	}
}

// A givenRung is a directive that was given.
type givenRung struct {
	id   string
	at   time.Time
	rung int
}

func TestObserveOnlyOnce(t *testing.T) {
	for name, c := range map[string]struct {
		budget watchdog.Budget
		end    func(wd *watchdog.Watchdog) // of the stretch
		asks   int64                       // whether the host is busy
	}{
		"of silence": {
			watchdog.Budget{WallClock: watchdog.NoLimit, Idle: minute}, (*watchdog.Watchdog).Activity, 3,
		},
		"without progress": {
			watchdog.Budget{WallClock: watchdog.NoLimit, NoProgress: minute}, (*watchdog.Watchdog).Progress, 0,
		},
	} {
		t.Run("a stretch "+name+" is reported once", func(t *testing.T) {
			h := &host{answer: no}
			cfg := watchdog.Config{ObserveOnly: true, Budget: c.budget, Busy: h.busy}
			inBubble(t, cfg, func(t *testing.T, wd *watchdog.Watchdog, store *flakyStore) {
				for n := range 3 {
					after(minute + 1)
					require.Equal(t, n+1, countEvents(t, store, watchdog.EventWarning), "by the timer")
					after(time.Hour)
					d, _ := wd.Poll()
					require.Equal(t, watchdog.DirectiveCancel, d.Kind)
					require.True(t, d.ObserveOnly)
					require.Empty(t, askedOf(wd))
					require.Equal(t, n+1, countEvents(t, store, watchdog.EventWarning))
					c.end(wd)
				}
				requireRunning(t, wd)
				require.Equal(t, c.asks, h.asked.Load())
			})
		})
	}
	t.Run("a hold is reported once over its cap, and once for each silence", func(t *testing.T) {
		cfg := watchdog.Config{ObserveOnly: true, Budget: watchdog.Budget{WallClock: watchdog.NoLimit}}
		inBubble(t, cfg, func(t *testing.T, wd *watchdog.Watchdog, store *flakyStore) {
			openHold(t, wd, "tool", watchdog.HoldLimit{Cap: 10 * minute, Idle: minute})
			after(time.Hour)
			wd.Activity()
			after(time.Hour)
			require.Len(t, askedOf(wd), 3)
			require.Equal(t, 3, countEvents(t, store, watchdog.EventWarning))
			requireRunning(t, wd)
		})
	})
}
