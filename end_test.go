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
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/racing"
)

// noOutput is the cancel that a command's guard decides.
var noOutput = watchdog.Cancellation{Reason: watchdog.CommandNoOutput, Elapsed: 5*minute + 250*time.Millisecond, Budget: 5 * minute}

// cancelled cancels the run and reports that it has ended by that.
func (b *fixture) cancelled(wd *watchdog.Watchdog, c watchdog.Cancellation) *watchdog.Stop {
	b.t.Helper()
	stop := cancelRun(b.t, wd, c)
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
		require.Len(b.t, b.events(event.Cancel), 1)
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
				require.Len(t, b.events(event.Cancel), 1)
			})
		}
	})
	t.Run("a guard without a limit leaves the lengths out", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			stop := b.cancelled(b.attach(), watchdog.Cancellation{Reason: watchdog.CommandTerminal})
			require.EqualError(t, stop,
				"run s-1 stopped: watchdog_terminal, in the window that started at 2026-05-01T12:00:00Z; resume the run to go on")
			require.NotContains(t, payloads(t, b.store, event.Cancel), "measured_seconds")
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
					stop := cancelRun(t, wd, noOutput)
					require.Nil(t, stop)
					b.live(wd)
					d := poll(t, wd)
					require.True(t, d.ObserveOnly)
					require.Equal(t, watchdog.CommandNoOutput, d.Reason)
				}
				require.Len(t, b.events(event.Warning), 2)
				require.Empty(t, b.events(event.Cancel))
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
	require.Equal(t, fired, countEvents(t, r.store, event.Cancel) == 1, "Fired and the events disagree")
	var interruption *watchdog.Interruption
	require.Equal(t, errors.As(cause, &interruption), countEvents(t, r.store, event.Interrupt) == 1)
	require.Equal(t, errors.Is(cause, watchdog.ErrComplete), countEvents(t, r.store, event.Complete) == 1)
}

func countEvents(t *testing.T, store watchdog.EventStore, kind string) (n int) {
	t.Helper()
	events, err := store.Read(context.Background(), event.AggregateType, "s-1")
	require.NoError(t, err)
	for _, e := range events {
		if e.Type == kind {
			n++
		}
	}
	return n
}

// requireComplete reports that a run cannot be attached because it is complete.
func (b *fixture) requireComplete() {
	b.t.Helper()
	_, err := watchdog.New(b.t.Context(), b.run, b.cfg)
	require.ErrorIs(b.t, err, watchdog.ErrComplete)
	require.ErrorContains(b.t, err, "Resume")
	require.ErrorContains(b.t, err, "s-1")
}

func TestComplete(t *testing.T) {
	runFixture(t, "a run that its host closed or whose parent ended cannot be complete", func(b *fixture) {
		wd := b.attach()
		require.NoError(b.t, wd.Close())
		require.ErrorIs(b.t, wd.Complete(), watchdog.ErrEnded)
		require.ErrorIs(b.t, wd.Complete(), watchdog.ErrClosed)
		require.ErrorIs(b.t, (*watchdog.Watchdog)(nil).Complete(), watchdog.ErrEnded)
	})
	runFixture(t, "what the run signals meanwhile is not forgotten if it goes on", func(b *fixture) {
		b.cfg.Budget.Idle = 3 * time.Second
		wd, goOn := b.attach(), b.store.hangs()
		done := make(chan error)
		go func() { done <- wd.Complete() }()
		for range 5 {
			synctest.Wait()
			b.pass(time.Second)
			wd.Activity()
		}
		require.Error(b.t, <-done)
		synctest.Wait()
		b.live(wd)
		goOn()
	})
	t.Run("of complete and cancel at one moment one counts, for everybody", func(t *testing.T) {
		for range 200 {
			inFixture(t, func(b *fixture) {
				one, other := b.attach(), b.attach()
				var both sync.WaitGroup
				both.Go(func() { _ = one.Complete() })
				both.Go(func() { _, _ = other.Cancel(watchdog.Cancellation{Reason: "host_gone"}) })
				both.Wait()
				require.Len(t, append(b.events(event.Complete), b.events(event.Cancel)...), 1)
				require.Equal(t, context.Cause(one.Context()).Error(), context.Cause(other.Context()).Error())
			})
		}
	})
}

func TestSync(t *testing.T) {
	for name, store := range map[string]func(b *fixture) watchdog.EventStore{
		"in memory":               func(*fixture) watchdog.EventStore { return &watchdog.Memory{} },
		"that is waited for":      func(b *fixture) watchdog.EventStore { return b.store },
		"of a run that is polled": func(b *fixture) watchdog.EventStore { b.cfg.PollOnly = true; return b.store },
	} {
		runFixture(t, "another process's cancel ends the run with the stored stop, from a store "+name, func(b *fixture) {
			b.cfg.Store = store(b)
			wd, sweeper := b.attach(), b.attach()
			stop := synced(b.t, wd)
			require.Nil(b.t, stop)
			b.live(wd)
			first := b.cancelled(sweeper,
				watchdog.Cancellation{Reason: watchdog.SessionIdleTimeout, Elapsed: time.Hour, Budget: 10 * minute})
			b.pass(minute)
			stop = synced(b.t, wd)
			require.Equal(b.t, first, stop)
			require.Same(b.t, stop, requireStop(b.t, wd, watchdog.SessionIdleTimeout))
			again := synced(b.t, wd)
			require.Same(b.t, stop, again)
			require.NoError(b.t, wd.Close())
			require.Equal(b.t, 1, countEvents(b.t, b.cfg.Store, event.Cancel))
		})
	}
	runFixture(t, "the readers of directives are told, once", func(b *fixture) {
		wd, sweeper := b.attach(), b.attach()
		told := make(chan watchdog.StopReason, 16)
		wd.Subscribe(func(d watchdog.Directive) { told <- d.Reason })
		b.cancelled(sweeper, noOutput)
		for range 2 {
			synced(b.t, wd)
		}
		synctest.Wait()
		require.Equal(b.t, watchdog.CommandNoOutput, <-told)
		require.Empty(b.t, told)
		d := poll(b.t, wd)
		require.Equal(b.t, watchdog.DirectiveCancel, d.Kind)
	})
	runFixture(t, "a run that is only observed ends by it too, as the next attach would", func(b *fixture) {
		sweeper := b.attach()
		b.cfg.ObserveOnly = true
		wd := b.attach()
		b.cancelled(sweeper, noOutput)
		synced(b.t, wd)
		requireStop(b.t, wd, watchdog.CommandNoOutput)
		requireStop(b.t, b.attach(), watchdog.CommandNoOutput)
	})
	runFixture(t, "a layer is not ended by the stop of a run of its ID and start, of which it has no event", func(b *fixture) {
		layer := openLayer(b.t, b.attach(), "step", watchdog.Budget{})
		named := attachTo(b.t.Context(), b.t, watchdog.Run{ID: layer.ID(), Parent: "s-1", StartedAt: noon}, b.cfg)
		cancelRun(b.t, named, noOutput)
		require.Nil(b.t, synced(b.t, layer))
		requireRunning(b.t, layer)
	})
	runFixture(t, "nor is one that ends while the store is read", func(b *fixture) {
		hook := &hookedStore{EventStore: b.store}
		b.cfg.Store = hook
		wd, sweeper := b.attach(), b.attach()
		b.cancelled(sweeper, noOutput)
		hook.read = func() error { return wd.Close() }
		_, err := wd.Sync(b.t.Context())
		require.ErrorIs(b.t, err, watchdog.ErrEnded)
		require.ErrorIs(b.t, context.Cause(wd.Context()), watchdog.ErrClosed)
		require.False(b.t, hasFired(wd))
	})
}

func TestSyncStoreFails(t *testing.T) {
	runFixture(t, "where it ignores its context besides, the caller's context ends the wait for it", func(b *fixture) {
		hang := make(chan struct{})
		hook := &hookedStore{EventStore: b.store}
		b.cfg.Store = hook
		wd := b.attach()
		hook.read = func() error { <-hang; return nil }
		ctx, end := context.WithCancelCause(context.Background())
		failed := make(chan error, 1)
		go func() {
			_, err := wd.Sync(ctx)
			failed <- err
		}()
		synctest.Wait()
		end(errHostGone)
		err := <-failed
		require.ErrorIs(b.t, err, errHostGone)
		require.ErrorIs(b.t, err, context.Canceled)
		close(hang)
		synctest.Wait()
	})
	runFixture(t, "and the run's limits go on while it hangs", func(b *fixture) {
		b.cfg.RecordTimeout, b.cfg.Budget.WarnAt = minute, []float64{}
		hook := &hookedStore{EventStore: b.store}
		b.cfg.Store = hook
		wd := b.attach()
		b.pass(watchdog.DefaultWallClock - time.Second)
		hang := make(chan struct{})
		hook.read = func() error { <-hang; return nil }
		heeded := make(chan *watchdog.Stop, 1)
		go func() {
			stop, _ := wd.Sync(context.Background())
			heeded <- stop
		}()
		synctest.Wait()
		b.pass(time.Second + 1)
		close(hang)
		require.Same(b.t, <-heeded, b.stopped(wd), "the limit's, which waits for the store behind it")
		require.Len(b.t, b.events(event.Cancel), 1)
	})
}

// TestSyncExtension protects an extension from a sync that comes between its append and its return.
func TestSyncExtension(t *testing.T) {
	inFixture(t, func(b *fixture) {
		var wd *watchdog.Watchdog
		b.cfg.PollOnly = true
		b.cfg.Store = &watchdog.Memory{}
		wd = b.attach()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { wd.Extend(minute) })
			all.Go(func() { wd.Sync(context.Background()) })
		}
		all.Wait()
		require.Equal(b.t, 4*time.Hour+100*minute, wd.Remaining())
	})
}

// staleStore reads as one that knows of nothing yet.
type staleStore struct{ watchdog.EventStore }

func (staleStore) Read(context.Context, string, string) ([]watchdog.Event, error) { return nil, nil }

func TestSyncOlderState(t *testing.T) {
	inFixture(t, func(b *fixture) {
		b.cfg.Store = staleStore{b.store}
		wd := b.attach()
		require.NoError(t, wd.Extend(time.Hour))
		synced(t, wd)
		require.Equal(t, 5*time.Hour, wd.Remaining())
	})
}
