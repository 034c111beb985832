package watchdog_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
)

// over is the default budget and one nanosecond.
const over = watchdog.DefaultWallClock + 1

func TestStoreHangs(t *testing.T) {
	ends := map[string]func(wd *watchdog.Watchdog){
		"a limit that is exceeded": nil, "a cancel": func(wd *watchdog.Watchdog) { _, _ = wd.Cancel(noOutput) },
	}
	for what, end := range ends {
		for name, ignoresContext := range map[string]bool{" and heeds its context": false, " and heeds nothing": true} {
			runFixture(t, what+name, func(b *fixture) {
				b.cfg.Budget.WarnAt = []float64{}
				wd, goOn, decided := b.attach(), b.store.hangs(), noon
				b.store.set(func(s *flakyStore) { s.ignoresContext = ignoresContext })
				if end != nil {
					go end(wd)
				} else {
					b.pass(over)
					decided = noon.Add(over).Truncate(time.Microsecond)
				}
				synctest.Wait()
				b.pass(watchdog.DefaultRecordTimeout - 1)
				require.NoError(b.t, wd.Context().Err(), "record, then cancel")
				b.pass(1)
				require.Error(b.t, wd.Context().Err())
				goOn()
				synctest.Wait()
				require.Equal(b.t, decided, wd.Stop().FiredAt, "when it was decided")
				require.NoError(b.t, wd.Close())
				require.Len(b.t, b.events(event.Cancel), 1)
			})
		}
	}
	for name, look := range map[string]func(wd *watchdog.Watchdog) *watchdog.Stop{
		"a poll":         (*watchdog.Watchdog).Stop,
		"another cancel": func(wd *watchdog.Watchdog) *watchdog.Stop { stop, _ := wd.Cancel(noOutput); return stop },
	} {
		runFixture(t, name+" waits for the record, so that every reader sees one stop", func(b *fixture) {
			b.cfg.Budget.WarnAt = []float64{}
			wd, goOn, found := b.attach(), b.store.hangs(), make(chan *watchdog.Stop, 1)
			b.pass(over)
			go func() { found <- look(wd) }()
			synctest.Wait()
			require.Empty(b.t, found)
			goOn()
			require.Same(b.t, <-found, b.stopped(wd))
		})
	}
}

// TestPending protects the stop from what the store does not take: no number of others keeps it from a store that is
// slow.
func TestPending(t *testing.T) {
	for _, pollOnly := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store, cfg := &flakyStore{}, asked
			hooked := &hookedStore{EventStore: store, append: refusing(event.Wait)}
			cfg.Store, cfg.Logger, cfg.PollOnly = hooked, quiet, pollOnly
			wd := guard(t, cfg)
			for range 20 {
				after(minute + 1)
				wd.Fired()
			}
			store.set(func(s *flakyStore) { s.fail = errDiskFull })
			cancelRun(t, wd, noOutput)
			synctest.Wait()
			store.set(func(s *flakyStore) { s.fail = nil })
			hooked.append = func(events []watchdog.Event) error {
				time.Sleep(time.Second)
				return refusing(event.Wait)(events)
			}
			began := time.Now()
			require.Error(t, wd.Close())
			require.LessOrEqual(t, time.Since(began), 2*watchdog.DefaultRecordTimeout)
			require.Equal(t, 1, countEvents(t, store, event.Cancel))
			after(time.Minute) // what Close left behind
			hooked.append = nil
		})
	}
}

// TestMaxStops protects that a run which is stopped again and again is not resumed for ever.
func TestMaxStops(t *testing.T) {
	inFixture(t, func(f *fixture) {
		f.cfg.MaxStops = 3
		wd := f.attach()
		for n := range 2 {
			f.pass(5 * time.Hour)
			require.NotNil(t, wd.Stop(), n)
			require.NoError(t, wd.Close())
			wd = f.resume()
		}
		f.pass(5 * time.Hour)
		require.NoError(t, wd.Close())
		before := len(f.events(event.Resume))
		_, err := watchdog.Resume(context.Background(), f.run, f.cfg)
		require.ErrorIs(t, err, watchdog.ErrFailing)
		require.ErrorContains(t, err, "3 times in a row, at last by watchdog_wall_clock_exceeded")
		require.Len(t, f.events(event.Resume), before, "nothing is recorded")

		f.cfg.MaxStops = 4
		wd = f.resume()
		require.NoError(t, wd.Complete())
		require.NoError(t, wd.Close())
		f.cfg.MaxStops = 1
		wd = f.resume() // the row ended
		f.pass(5 * time.Hour)
		require.NoError(t, wd.Close())
		_, err = watchdog.Resume(context.Background(), f.run, f.cfg)
		require.ErrorIs(t, err, watchdog.ErrFailing)
		f.cfg.MaxStops = watchdog.NoLimit
		f.resume()
	})
}

// TestRetryRace has runs on the machine's clock, whose lanes share the one timer of all, lose events and close at
// the same time. All is recorded in the end, once.
func TestRetryRace(t *testing.T) {
	store := &tripStore{}
	var wait sync.WaitGroup
	all := make([]*watchdog.Watchdog, 40)
	for i := range all {
		wd, err := watchdog.New(t.Context(), watchdog.Run{ID: fmt.Sprint("s-", i), StartedAt: time.Now()},
			watchdog.Config{Store: store, Logger: quiet})
		require.NoError(t, err)
		all[i] = wd
	}
	store.leave(true)
	for i, wd := range all {
		wait.Go(func() {
			h := openHold(t, wd, "approval", approval)
			h.Close()
			switch i % 4 {
			case 0:
				_ = wd.Close()
			case 1:
				cancelRun(t, wd, noOutput)
			case 2:
				wd.Fired()
			}
		})
	}
	time.AfterFunc(300*time.Millisecond, func() { store.leave(false) })
	wait.Wait()
	open := func() (n int) {
		for i := range all {
			if i%4 != 0 {
				n += 2
			}
		}
		return n
	}()
	require.Eventually(t, func() bool {
		return recordedIn(t, &store.Memory, all, event.Hold)+
			recordedIn(t, &store.Memory, all, event.Release) >= open
	}, 20*time.Second, 20*time.Millisecond, "nobody polls")
	for i, wd := range all {
		wait.Go(func() {
			if err := wd.Close(); err != nil {
				t.Error(i, err)
			}
		})
	}
	wait.Wait()
	require.Equal(t, len(all), recordedIn(t, &store.Memory, all, event.Hold))
	require.Equal(t, len(all), recordedIn(t, &store.Memory, all, event.Release))
	require.Equal(t, 10, recordedIn(t, &store.Memory, all, event.Cancel))
}

// A closedWrapper wraps a store and is not to be passed by.
type closedWrapper struct {
	inside watchdog.EventStore
	calls  calls
}

func (s *closedWrapper) Append(ctx context.Context, events ...watchdog.Event) error {
	s.calls.appends++
	return s.inside.Append(ctx, events...)
}

func (s *closedWrapper) Read(ctx context.Context, kind, id string) ([]watchdog.Event, error) {
	s.calls.reads++
	return s.inside.Read(ctx, kind, id)
}

// An openWrapper may be passed by.
type openWrapper struct{ closedWrapper }

func (s *openWrapper) Unwrap() watchdog.EventStore { return s.inside }

// An embedder has Select and Transact of the store that it embeds, and overrides Append alone.
type embedder struct {
	*countingStore
	appended []string
}

func (s *embedder) Append(ctx context.Context, events ...watchdog.Event) error {
	for _, e := range events {
		s.appended = append(s.appended, e.Type)
	}
	return s.countingStore.Append(ctx, events...)
}

// liveAndDie attaches, warns, syncs and cancels, resumes and completes a run, and attaches to it again.
func liveAndDie(t *testing.T, store watchdog.EventStore) {
	t.Helper()
	inFixture(t, func(b *fixture) {
		b.cfg.Store, b.cfg.PollOnly = store, true
		wd := b.attach()
		b.pass(watchdog.DefaultWallClock - time.Minute)
		require.Nil(b.t, wd.Stop()) // warns
		synced(b.t, wd)
		cancelRun(b.t, wd, watchdog.Cancellation{Reason: "host_gone"})
		wd = b.resume()
		require.NoError(b.t, wd.Complete())
		require.NoError(b.t, wd.Complete(), "it is complete already")
		require.ErrorIs(b.t, wd.Extend(time.Hour), watchdog.ErrComplete)
		b.requireComplete()
	})
}

// TestWrappedStore protects that a wrapper is passed by only if it says so.
func TestWrappedStore(t *testing.T) {
	t.Run("one with Unwrap is passed by where the store inside can do more, however deep it lies", func(t *testing.T) {
		inside := &countingStore{}
		middle := &openWrapper{closedWrapper{inside: inside}}
		wrapper := &openWrapper{closedWrapper{inside: middle}}
		liveAndDie(t, wrapper)
		require.Equal(t, calls{appends: 2}, wrapper.calls, "the warning and the resume")
		require.Equal(t, wrapper.calls, middle.calls)
		require.Equal(t, 2, inside.calls.appends)
		require.Zero(t, inside.calls.reads)
		require.Equal(t, 2, inside.calls.transacts, "the cancel and the complete")
		require.Positive(t, inside.calls.selects)
	})
	t.Run("one without is asked to append and to read, and nothing inside it is asked anything else", func(t *testing.T) {
		inside := &countingStore{}
		wrapper := &closedWrapper{inside: inside}
		liveAndDie(t, wrapper)
		require.Equal(t, wrapper.calls, inside.calls)
		require.Equal(t, 4, wrapper.calls.appends, "the warning, the resume, the cancel and the complete")
		require.Positive(t, wrapper.calls.reads)
	})
	t.Run("nor is anything behind it", func(t *testing.T) {
		inside := &countingStore{}
		wrapper := &openWrapper{closedWrapper{inside: &closedWrapper{inside: inside}}}
		liveAndDie(t, wrapper)
		require.Zero(t, inside.calls.selects+inside.calls.transacts)
		require.Equal(t, 4, wrapper.calls.appends)
	})
	t.Run("one that embeds a store and overrides Append alone does not see the ends", func(t *testing.T) {
		wrapper := &embedder{countingStore: &countingStore{}}
		liveAndDie(t, wrapper)
		require.Equal(t, []string{event.Warning, event.Resume}, wrapper.appended)
		require.Equal(t, 2, wrapper.countingStore.calls.transacts)
	})
}

// hourly is a run of an hour without warnings.
var hourly = watchdog.Budget{WallClock: time.Hour, WarnAt: []float64{}}

// attachAll attaches to runs that have their limits at one instant and are rung together.
func attachAll(t *testing.T, runs int, config func(i int) watchdog.Config) []*watchdog.Watchdog {
	t.Helper()
	all, start := make([]*watchdog.Watchdog, runs), time.Now()
	for i := range all {
		cfg := config(i)
		if cfg.Logger == nil {
			cfg.Logger = quiet
		}
		wd, err := watchdog.New(context.Background(), watchdog.Run{ID: fmt.Sprint("s-", i), StartedAt: start}, cfg)
		require.NoError(t, err)
		watchdog.StopTimer(wd)
		all[i] = wd
	}
	return all
}

// ringAt rings the runs when they are d old, and waits for all that happens then.
func ringAt(d time.Duration, all []*watchdog.Watchdog) {
	time.Sleep(d)
	watchdog.RingAll(all...)
	synctest.Wait()
}

func ended(all []*watchdog.Watchdog) (n int) {
	for _, wd := range all {
		if wd.Context().Err() != nil {
			n++
		}
	}
	return n
}

func closeAll(t *testing.T, all []*watchdog.Watchdog) {
	t.Helper()
	for _, wd := range all {
		require.NoError(t, wd.Close())
	}
}

// TestTogether protects a store, and the host's memory, from an exchange and a goroutine for each of many runs that
// trip at one instant.
func TestTogether(t *testing.T) {
	const runs = 1000
	with := func(store watchdog.EventStore) func(int) watchdog.Config {
		return func(int) watchdog.Config {
			return watchdog.Config{Store: store, Budget: hourly, RecordTimeout: time.Second}
		}
	}
	bubble := func(name string, test func(t *testing.T, store *countingStore)) {
		runSynced(t, name, func(t *testing.T) { test(t, &countingStore{}) })
	}
	bubble("a thousand runs of one instant are recorded in a few transactions", func(t *testing.T, store *countingStore) {
		all := attachAll(t, runs, with(store))
		ringAt(time.Hour+1, all)
		require.Equal(t, runs, ended(all))
		for _, wd := range all {
			requireStop(t, wd, watchdog.WallClockExceeded)
		}
		require.Equal(t, runs, store.recorded(t, all, event.Cancel))
		require.Equal(t, runs, store.exchanges)
		require.LessOrEqual(t, store.calls.transacts, 4)
		closeAll(t, all)
	})
	bubble("a store that is slow needs few goroutines for ten thousand runs", func(t *testing.T, store *countingStore) {
		all := attachAll(t, 10*runs, func(int) watchdog.Config { return watchdog.Config{Store: store, Budget: hourly} })
		store.delay = 50 * time.Millisecond
		before, began := runtime.NumGoroutine(), time.Now().Add(time.Hour)
		ringAt(time.Hour+1, all)
		for ended(all) < len(all) {
			after(store.delay)
		}
		require.LessOrEqual(t, time.Since(began), time.Second)
		require.Less(t, store.goroutines-before, 100)
		require.Equal(t, len(all), store.recorded(t, all, event.Cancel))
		store.delay = 0
		closeAll(t, all)
	})
	runSynced(t, "a store whose values cannot be compared", func(t *testing.T) {
		store := taggedStore{&countingStore{}, []string{"a"}}
		all := attachAll(t, 100, with(store))
		ringAt(time.Hour+1, all)
		require.Equal(t, len(all), ended(all))
		require.Equal(t, len(all), store.recorded(t, all, event.Cancel))
		closeAll(t, all)
	})
}

// A taggedStore cannot be compared.
type taggedStore struct {
	*countingStore
	tags []string
}

// TestWarnedTogether protects a store and the host's memory from the warnings of many runs at one instant: they are
// recorded in a few appends and then told.
func TestWarnedTogether(t *testing.T) {
	const runs = 1000
	synctest.Test(t, func(t *testing.T) {
		store, told := &countingStore{}, atomic.Int32{}
		all := attachAll(t, runs, func(int) watchdog.Config {
			return watchdog.Config{
				Store: store, Budget: watchdog.Budget{WallClock: time.Hour, WarnAt: []float64{0.5}},
				RecordTimeout: time.Second, OnWarning: func(watchdog.Warning) { told.Add(1) },
			}
		})
		store.delay = 100 * time.Millisecond
		before := runtime.NumGoroutine()
		ringAt(30*minute, all)
		require.Less(t, runtime.NumGoroutine()-before, 100)
		require.Zero(t, told.Load())
		after(store.delay)
		require.EqualValues(t, runs, told.Load())
		require.Equal(t, runs, store.recorded(t, all, event.Warning))
		require.LessOrEqual(t, store.calls.appends, 4)
		require.Zero(t, ended(all))
		store.delay = 0
		closeAll(t, all)
	})
}

// TestSignalsNeverWait protects code that signals per token from a store that is slow: a signal never polls, records or
// waits.
func TestSignalsNeverWait(t *testing.T) {
	signals := map[string]func(*watchdog.Watchdog){
		"activity": (*watchdog.Watchdog).Activity,
		"progress": (*watchdog.Watchdog).Progress,
		"a digest": func(wd *watchdog.Watchdog) { wd.ProgressDigest("new") },
		"a note":   func(wd *watchdog.Watchdog) { wd.Note("tool") },
		"an event": func(wd *watchdog.Watchdog) { wd.Observe("token") },
	}
	budget := watchdog.Budget{WallClock: time.Minute, WarnAt: []float64{}, Idle: time.Hour, FromFirstSign: true}
	for name, pollOnly := range map[string]bool{"with a timer": false, "without one": true} {
		for what, signal := range signals {
			t.Run(what+" as the first sign, of a run that is late, while the store hangs, "+name, func(t *testing.T) {
				cfg := watchdog.Config{Budget: budget, PollOnly: pollOnly, Kinds: watchdog.Kinds{Activity: []string{"token"}}}
				inBubble(t, cfg, func(t *testing.T, wd *watchdog.Watchdog, store *flakyStore) {
					goOn := store.hangs()
					after(time.Minute + 1) // with a timer the stop is being recorded now
					began := time.Now()
					signal(wd)
					require.Zero(t, time.Since(began))
					goOn()
					synctest.Wait()
					_, fired := wd.Fired() // which is where a run without a timer is stopped
					require.True(t, fired)
					requireStop(t, wd, watchdog.WallClockExceeded)
				})
			})
		}
	}
	t.Run("the first sign without a timer has the next poll look", func(t *testing.T) {
		budget := watchdog.Budget{Idle: 10 * time.Millisecond, FromFirstSign: true}
		inBubble(t, watchdog.Config{Budget: budget, PollOnly: true}, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
			requireRunning(t, wd) // and may be quiet for a second
			wd.Activity()
			after(11 * time.Millisecond)
			require.True(t, hasFired(wd))
			requireStop(t, wd, watchdog.IdleExceeded)
		})
	})
}

// nine are warnings of one hour.
var nine = watchdog.Budget{
	WallClock: time.Hour, WarnAt: []float64{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}, Idle: 20 * minute,
	Ladders: watchdog.Ladders{Idle: many(watchdog.DirectiveWait, 200)},
}

// TestBoundOfTheWhole protects a host from waiting once for each event while its store hangs.
func TestBoundOfTheWhole(t *testing.T) {
	const timeout = 200 * time.Millisecond
	took := func(call func()) time.Duration {
		began := time.Now()
		call()
		return time.Since(began)
	}
	// late guards a run that began an hour less a minute ago, so that one look finds all the warnings, or that found
	// nothing yet.
	late := func(t *testing.T, pollOnly bool, age time.Duration,
		test func(t *testing.T, wd *watchdog.Watchdog, store *flakyStore),
	) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			store := &flakyStore{hang: make(chan struct{})}
			wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: time.Now().Add(-age)}, watchdog.Config{
				Store: store, Logger: quiet, RecordTimeout: timeout, PollOnly: pollOnly, Budget: nine,
			})
			require.NoError(t, err)
			test(t, wd, store)
			store.set(func(s *flakyStore) { s.hang = nil })
			require.NoError(t, wd.Close())
			if age > 0 {
				require.Len(t, warningsOf(t, store), 9, "kept until they are recorded")
			}
		})
	}
	for _, pollOnly := range []bool{false, true} {
		name := fmt.Sprintf(", poll-only %v", pollOnly)
		t.Run("Close waits at most twice the record timeout"+name, func(t *testing.T) {
			late(t, pollOnly, 59*minute, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
				require.LessOrEqual(t, took(func() { require.Error(t, wd.Close()) }), 2*timeout)
			})
		})
		for call, poll := range map[string]func(*watchdog.Watchdog){
			"Poll":  func(wd *watchdog.Watchdog) { wd.Poll() },
			"Fired": func(wd *watchdog.Watchdog) { wd.Fired() },
		} {
			t.Run(call+" that finds warnings, a directive and a stop ends the run as late, with more pending"+name, func(t *testing.T) {
				late(t, pollOnly, 0, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
					limit := time.Now().Add(time.Hour)
					time.Sleep(30 * minute)
					require.LessOrEqual(t, took(func() { poll(wd) }), timeout)
					time.Sleep(time.Until(limit) + 1)
					require.LessOrEqual(t, took(func() { poll(wd) }), timeout)
					require.ErrorIs(t, context.Cause(wd.Context()), watchdog.WallClockExceeded)
				})
			})
		}
	}
	t.Run("Close waits no longer for others that try again at the moment at which it would", func(t *testing.T) {
		for range 50 {
			late(t, false, 0, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
				for range 20 {
					go func() {
						time.Sleep(time.Hour + 1 + timeout)
						wd.Fired()
					}()
				}
				time.Sleep(time.Hour + 1 + timeout/2)
				require.LessOrEqual(t, took(func() { require.Error(t, wd.Close()) }), 2*timeout)
				time.Sleep(time.Minute)
			})
		}
	})
	t.Run("with a timer a run ends at most the record timeout after its limit", func(t *testing.T) {
		late(t, false, 59*minute, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
			after(minute + timeout)
			require.NoError(t, context.Cause(wd.Context()), "at its limit")
			after(1)
			require.ErrorIs(t, context.Cause(wd.Context()), watchdog.WallClockExceeded)
		})
	})
	runFixture(t, "what is found together is recorded together", func(b *fixture) {
		b.cfg.PollOnly, b.cfg.Budget = true, nine
		wd := b.attach()
		b.pass(55 * minute)
		b.live(wd)
		require.Equal(b.t, 1, b.store.appends)
		require.Len(b.t, b.events(event.Wait), 1)
	})
}

// warningsOf are the stored warnings that no directive follows.
func warningsOf(t *testing.T, store *flakyStore) (all []watchdog.Event) {
	t.Helper()
	events, err := store.Memory.Read(context.Background(), event.AggregateType, "s-1")
	require.NoError(t, err)
	waits := 0
	for _, e := range events {
		switch e.Type {
		case event.Warning:
			all = append(all, e)
		case event.Wait:
			waits++
		}
	}
	return all[waits:]
}

// TestAttachHangs protects a host from a store that does not answer while it attaches, and heeds no context.
func TestAttachHangs(t *testing.T) {
	hangs := func(hang chan struct{}) *hookedStore {
		return &hookedStore{EventStore: &flakyStore{}, read: func() error { <-hang; return nil }}
	}
	for name, attach := range map[string]attachFunc{"New": watchdog.New, "Resume": watchdog.Resume} {
		for _, run := range []watchdog.Run{{ID: "s-1"}, {ID: "s-1", StartedAt: time.Date(1999, 12, 31, 23, 59, 0, 0, time.UTC)}} {
			runSynced(t, fmt.Sprint(name, ", started ", run.StartedAt), func(t *testing.T) {
				hang := make(chan struct{})
				defer close(hang)
				began := time.Now()
				wd, err := attach(context.Background(), run, watchdog.Config{Store: hangs(hang), Logger: quiet})
				require.Nil(t, wd)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorContains(t, err, "did not answer in time (5s)")
				require.Equal(t, watchdog.DefaultRecordTimeout, time.Since(began))
			})
		}
	}
	runSynced(t, "the caller's context ends the wait for it", func(t *testing.T) {
		hang := make(chan struct{})
		defer close(hang)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := watchdog.New(ctx, watchdog.Run{ID: "s-1"}, watchdog.Config{Store: hangs(hang), Logger: quiet})
		require.ErrorContains(t, err, "wait for the event store: ")
	})
}
