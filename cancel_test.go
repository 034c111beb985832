package watchdog_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
)

// noOutput is the cancel that a command's guard decides.
var noOutput = watchdog.Cancellation{Reason: watchdog.CommandNoOutput, Elapsed: 5*minute + 250*time.Millisecond, Budget: 5 * minute}

// cancelled cancels the run and reports that it has ended by that.
func (b *fixture) cancelled(wd *watchdog.Watchdog, c watchdog.Cancellation) *watchdog.Stop {
	b.t.Helper()
	stop, err := wd.Cancel(c)
	require.NoError(b.t, err)
	require.NotNil(b.t, stop)
	require.Same(b.t, stop, requireStop(b.t, wd, c.Reason))
	return stop
}

func TestCancel(t *testing.T) {
	runFixture(t, "it ends the run with the guard's code, what it measured and the last note, recorded", func(b *fixture) {
		wd := b.attach()
		wd.Note("tool: make")
		b.pass(time.Hour)
		require.Equal(b.t, &watchdog.Stop{
			Code: watchdog.CommandNoOutput, RunID: "s-1", StartedAt: noon, FiredAt: noon.Add(time.Hour),
			Elapsed: noOutput.Elapsed, Budget: noOutput.Budget, Note: "tool: make", Rung: 1,
		}, b.cancelled(wd, noOutput))
		require.Len(b.t, b.events(watchdog.EventCancel), 1)
		require.NoError(b.t, wd.Close())
	})
	t.Run("every code of the taxonomy and a host's own come back as they were given, also to the next attach", func(t *testing.T) {
		for _, reason := range append(watchdog.StopReasons(), "deploy_failed", "2nd_try") {
			inFixture(t, func(b *fixture) {
				stop := b.cancelled(b.attach(),
					watchdog.Cancellation{Reason: reason, Elapsed: 1500 * time.Millisecond, Budget: time.Second})
				require.Equal(t, 1500*time.Millisecond, stop.Elapsed)
				b.pass(time.Hour)
				require.Equal(t, stop, requireStop(t, b.attach(), reason))
				require.Len(t, b.events(watchdog.EventCancel), 1)
			})
		}
	})
	t.Run("a guard without a limit leaves the lengths out", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			stop := b.cancelled(b.attach(), watchdog.Cancellation{Reason: watchdog.CommandTerminal})
			require.EqualError(t, stop,
				"run s-1 stopped: watchdog_terminal, in the window that started at 2026-05-01T12:00:00Z; resume the run to go on")
			require.NotContains(t, payloads(t, b.store, watchdog.EventCancel), "measured_seconds")
		})
		inFixture(t, func(b *fixture) {
			stop := b.cancelled(b.attach(), watchdog.Cancellation{Reason: watchdog.CommandTerminal, Elapsed: minute})
			require.ErrorContains(t, stop, "watchdog_terminal: its command came to a state that it cannot get out of, after 1 min 0 s, in")
		})
	})
	t.Run("of a run that is only observed it is recorded and told each time, and the run goes on", func(t *testing.T) {
		for _, pollOnly := range []bool{false, true} {
			inFixture(t, func(b *fixture) {
				b.cfg.ObserveOnly, b.cfg.PollOnly = true, pollOnly
				wd := b.attach()
				for range 2 {
					stop, err := wd.Cancel(noOutput)
					require.NoError(t, err)
					require.Nil(t, stop)
					b.live(wd)
					d, ok := wd.Poll()
					require.True(t, ok)
					require.True(t, d.ObserveOnly)
					require.Equal(t, watchdog.CommandNoOutput, d.Reason)
				}
				require.Len(t, b.events(watchdog.EventWarning), 2)
				require.Empty(t, b.events(watchdog.EventCancel))
				require.NoError(t, wd.Close())
				b.live(b.attach())
			})
		}
	})
}

func TestCancelInvalid(t *testing.T) {
	for name, c := range map[string]struct {
		cancellation watchdog.Cancellation
		says         string
	}{
		"no code":                            {watchdog.Cancellation{}, "is empty"},
		"a blank one":                        {watchdog.Cancellation{Reason: "  "}, "is empty"},
		"one in other letters":               {watchdog.Cancellation{Reason: "NoOutput"}, "a to z"},
		"one with a dash":                    {watchdog.Cancellation{Reason: "no-output"}, "a to z"},
		"one in another script":              {watchdog.Cancellation{Reason: "größe"}, "a to z"},
		"one with a line break":              {watchdog.Cancellation{Reason: "a\nb"}, "control character"},
		"one that is too long":               {watchdog.Cancellation{Reason: watchdog.StopReason(strings.Repeat("x", 101))}, "at most 100"},
		"a reason in place of its code":      {watchdog.Cancellation{Reason: "no_output"}, `"watchdog_no_output"`},
		"one that reads as a limit's":        {watchdog.Cancellation{Reason: "quota_exceeded"}, `"watchdog_quota_exceeded"`},
		"the watchdog's beginning":           {watchdog.Cancellation{Reason: "watchdog_quota"}, "begin"},
		"the watchdog's beginning and end":   {watchdog.Cancellation{Reason: "watchdog_quota_exceeded"}, "begin"},
		"a time before it began":             {watchdog.Cancellation{Reason: watchdog.CommandNoOutput, Elapsed: -1}, "Elapsed"},
		"a limit that was over at its begin": {watchdog.Cancellation{Reason: watchdog.CommandNoOutput, Budget: math.MinInt64}, "Budget"},
	} {
		runFixture(t, name, func(b *fixture) {
			wd := b.attach()
			stop, err := wd.Cancel(c.cancellation)
			require.ErrorIs(b.t, err, watchdog.ErrInvalid)
			require.ErrorContains(b.t, err, c.says)
			require.ErrorContains(b.t, err, "s-1")
			require.Nil(b.t, stop)
			b.live(wd)
			require.Zero(b.t, b.store.appends)
		})
	}
	runFixture(t, "the longest code and the longest lengths are taken", func(b *fixture) {
		longest := watchdog.Cancellation{Reason: watchdog.StopReason(strings.Repeat("x", 100)), Elapsed: math.MaxInt64, Budget: watchdog.NoLimit}
		require.Equal(b.t, time.Duration(watchdog.NoLimit), b.cancelled(b.attach(), longest).Budget)
	})
}

// endings are what can end a run. Each is begun at the same instant as the others of its race.
var endings = map[string]func(r *race){
	"limit":     func(*race) {},
	"parent":    func(r *race) { r.endParent(errHostGone) },
	"close":     func(r *race) { r.wd.Close() },
	"interrupt": func(r *race) { r.wd.Interrupt("SIGINT") },
	"poll":      func(r *race) { r.wd.Fired() },
	"extend":    func(r *race) { r.wd.Extend(time.Hour) },
	"cancel":    func(r *race) { r.wd.Cancel(noOutput) },
	"complete":  func(r *race) { r.wd.Complete() },
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
	r.wd = guardUnder(parent, t, watchdog.Config{Store: r.store, Budget: watchdog.Budget{WallClock: time.Minute}})
	r.hold = openHold(t, r.wd, "tool", watchdog.HoldLimit{Cap: time.Minute})
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
	require.Equal(t, errors.Is(cause, watchdog.ErrComplete), countEvents(t, r.store, watchdog.EventComplete) == 1)
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
			wd := guard(t, watchdog.Config{Store: store, Budget: watchdog.Budget{WallClock: time.Minute - time.Duration(i)}})
			all = append(all, wd)
		}
		time.Sleep(2 * time.Minute)
		for _, wd := range all {
			require.Equal(t, all[0].Stop(), wd.Stop())
		}
		require.Equal(t, 1, countEvents(t, store, watchdog.EventCancel))
	})
}
