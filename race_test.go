package watchdog_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
)

// endings are what can end a run. Each is begun at the same instant as the others of its race.
var endings = map[string]func(r *race){
	"limit":     func(*race) {},
	"parent":    func(r *race) { r.endParent(errHostGone) },
	"close":     func(r *race) { r.wd.Close() },
	"interrupt": func(r *race) { r.wd.Interrupt("SIGINT") },
	"poll":      func(r *race) { r.wd.Fired() },
	"extend":    func(r *race) { r.wd.Extend(time.Hour) },
	"cancel":    func(r *race) { r.wd.Cancel(noOutput) },
	"hold end":  func(r *race) { r.hold.Close() },
	"hold cap":  func(r *race) { r.wd.Poll() },
}

type race struct {
	wd        *watchdog.Watchdog
	store     *flakyStore
	endParent context.CancelCauseFunc
	hold      *watchdog.Hold
}

func TestOneCause(t *testing.T) {
	for one, begin := range endings {
		for other, join := range endings {
			if one >= other {
				continue
			}
			t.Run(one+" against "+other, func(t *testing.T) {
				for seed := range racing.Rounds[uint64](40, 1000) {
					synctest.Test(t, func(t *testing.T) { runRace(t, seed, begin, join) })
				}
			})
		}
	}
}

// runRace brings both causes about when the budget is used up, give or take a nanosecond, and asks every reader.
func runRace(t *testing.T, seed uint64, causes ...func(*race)) {
	rng := rand.New(rand.NewPCG(seed, 3))
	parent, endParent := context.WithCancelCause(context.Background())
	defer endParent(nil)
	r := &race{store: &flakyStore{}, endParent: endParent}
	var err error
	r.wd, err = watchdog.New(parent, watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
		Store: r.store, Budget: watchdog.Budget{WallClock: time.Minute}, Logger: quiet,
	})
	require.NoError(t, err)
	r.hold, err = r.wd.Hold(context.Background(), "tool", watchdog.HoldLimit{Cap: time.Minute})
	require.NoError(t, err)
	var all sync.WaitGroup
	for _, cause := range causes {
		wait := time.Minute + time.Duration(rng.IntN(3))
		all.Go(func() {
			time.Sleep(wait)
			cause(r)
		})
	}
	all.Wait()
	synctest.Wait()
	checkOneEnd(t, r)
}

func checkOneEnd(t *testing.T, r *race) {
	t.Helper()
	before := context.Cause(r.wd.Context())
	_, fired := r.wd.Fired()
	require.NoError(t, r.wd.Close())
	cause := context.Cause(r.wd.Context())
	if before != nil {
		require.Equal(t, before, cause, "the cause changed")
	}
	var stop *watchdog.Stop
	require.Equal(t, fired, errors.As(cause, &stop), "Fired and the context disagree: %v", cause)
	require.Equal(t, stop, r.wd.Stop())
	require.Equal(t, fired, countEvents(t, r.store, watchdog.EventCancel) == 1, "Fired and the events disagree")
	var interruption *watchdog.Interruption
	require.Equal(t, errors.As(cause, &interruption), countEvents(t, r.store, watchdog.EventInterrupt) == 1)
}

func countEvents(t *testing.T, store watchdog.EventStore, kind string) (n int) {
	t.Helper()
	events, err := store.Read(context.Background(), watchdog.AggregateType, "s-1")
	require.NoError(t, err)
	for _, e := range events {
		if e.Type == kind {
			n++
		}
	}
	return n
}

func TestOneCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &flakyStore{}
		var all []*watchdog.Watchdog
		for i := range 64 {
			wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
				Store: store, Logger: quiet, Budget: watchdog.Budget{WallClock: time.Minute - time.Duration(i)},
			})
			require.NoError(t, err)
			defer wd.Close()
			all = append(all, wd)
		}
		time.Sleep(2 * time.Minute)
		for _, wd := range all {
			require.Equal(t, all[0].Stop(), wd.Stop())
		}
		require.Equal(t, 1, countEvents(t, store, watchdog.EventCancel))
	})
}
