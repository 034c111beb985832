package watchdog_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// A triedStore notes when it was asked to append, and how many events. It is transactional, and can be away.
type triedStore struct {
	watchdog.Memory

	mu         sync.Mutex
	now        func() time.Time
	err        error                     // what it returns, and takes nothing
	refuses    func(watchdog.Event) bool // nil refuses nothing
	hang       chan struct{}             // what it waits for, whatever its context says
	tries      []time.Time
	events     int
	goroutines int // the most that were seen
}

func (s *triedStore) set(change func(s *triedStore)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *triedStore) ask(events ...watchdog.Event) error {
	s.mu.Lock()
	s.tries, s.events = append(s.tries, s.now()), s.events+len(events)
	s.goroutines = max(s.goroutines, runtime.NumGoroutine())
	hang, err := s.hang, s.err
	for _, e := range events {
		if s.refuses != nil && s.refuses(e) {
			err = errRefused
		}
	}
	s.mu.Unlock()
	if hang != nil {
		<-hang
	}
	return err
}

func (s *triedStore) Append(ctx context.Context, events ...watchdog.Event) error {
	if err := s.ask(events...); err != nil {
		return err
	}
	return s.Memory.Append(context.WithoutCancel(ctx), events...)
}

// Transact asks for what all exchanges decide.
func (s *triedStore) Transact(ctx context.Context, exchanges ...*watchdog.Exchange) error {
	var all []watchdog.Event
	for _, x := range exchanges {
		selected, err := s.Select(ctx, x.Selection)
		if err != nil {
			return err
		}
		all = append(all, x.Decide(selected)...)
	}
	if err := s.ask(all...); err != nil {
		return err
	}
	return s.Memory.Transact(context.WithoutCancel(ctx), exchanges...)
}

func (s *triedStore) recorded(t *testing.T, all []*watchdog.Watchdog, kind string) int {
	t.Helper()
	return recordedIn(t, &s.Memory, all, kind)
}

// inRetries is inFixture with a triedStore that is away.
func inRetries(t *testing.T, test func(b *fixture, store *triedStore)) {
	t.Helper()
	inFixture(t, func(b *fixture) {
		store := &triedStore{now: b.clock.Now}
		b.cfg.Store, b.cfg.Budget = store, watchdog.Budget{WallClock: watchdog.NoLimit}
		test(b, store)
	})
}

// away has the store take nothing, and forgets what it was asked.
func (s *triedStore) away() {
	s.set(func(s *triedStore) { s.err, s.tries, s.events = errDiskFull, nil, 0 })
}

func (s *triedStore) back() { s.set(func(s *triedStore) { s.err = nil }) }

// TestRetry protects what a store did not take from being forgotten: it is tried again though nobody polls, by all runs
// of the store together, seldom enough for a store that is away, and not after Close.
func TestRetry(t *testing.T) {
	t.Run("whatever it is", func(t *testing.T) {
		var parent context.Context
		var end context.CancelFunc
		for what, lose := range map[string]func(b *fixture, wd *watchdog.Watchdog){
			watchdog.EventWarning:   func(b *fixture, _ *watchdog.Watchdog) { b.pass(54 * time.Minute) },
			watchdog.EventWrapUp:    func(b *fixture, _ *watchdog.Watchdog) { b.pass(56 * time.Minute) },
			watchdog.EventRetry:     func(b *fixture, _ *watchdog.Watchdog) { b.pass(10*time.Minute + 1) },
			watchdog.EventInterrupt: func(*fixture, *watchdog.Watchdog) { end() },
			watchdog.EventCancel: func(_ *fixture, wd *watchdog.Watchdog) {
				_, err := wd.Cancel(noOutput)
				require.NoError(t, err)
			},
			watchdog.EventHold: func(_ *fixture, wd *watchdog.Watchdog) {
				_, err := wd.Hold(context.Background(), "approval", approval)
				require.NoError(t, err)
			},
			watchdog.EventRelease: func(_ *fixture, wd *watchdog.Watchdog) {
				h, err := wd.Hold(context.Background(), "approval", approval)
				require.NoError(t, err)
				h.Close()
			},
			watchdog.EventProgress: func(b *fixture, wd *watchdog.Watchdog) {
				b.pass(10*time.Minute + 1)
				wd.Progress()
				_, err := wd.Cancel(noOutput) // what is recorded in the moment of the end
				require.NoError(t, err)
			},
		} {
			t.Run(what, func(t *testing.T) {
				inRetries(t, func(b *fixture, store *triedStore) {
					parent, end = context.WithCancel(context.Background())
					defer end()
					b.cfg.RecordInterrupts = true
					b.cfg.Budget = watchdog.Budget{WallClock: time.Hour, Reserve: 5 * time.Minute}
					if what == watchdog.EventRetry || what == watchdog.EventProgress {
						b.cfg.Budget.Idle, b.cfg.Budget.Ladders.Idle = 10*time.Minute, []watchdog.DirectiveKind{retry}
					}
					wd, err := watchdog.New(parent, b.run, b.cfg)
					require.NoError(b.t, err)
					defer wd.Close()
					store.away()
					lose(b, wd)
					synctest.Wait()
					require.Zero(b.t, countEvents(b.t, store, what))
					store.back()
					b.pass(30 * time.Second)
					require.Equal(b.t, 1, countEvents(b.t, store, what))
				})
			})
		}
	})
}

// TestRetryTogether protects a store that is away, and one that has just come back, from ten thousand tries at one
// instant, and the host from as many goroutines.
func TestRetryTogether(t *testing.T) {
	const runs = 2_000
	// lost attaches to runs whose stop the store does not take.
	lost := func(b *fixture, store *triedStore, runs int) (all []*watchdog.Watchdog) {
		for i := range runs {
			b.run.ID = fmt.Sprint("s-", i)
			wd, err := watchdog.New(context.Background(), b.run, b.cfg)
			require.NoError(b.t, err)
			all = append(all, wd)
		}
		store.away()
		for _, wd := range all {
			_, err := wd.Cancel(noOutput)
			require.NoError(b.t, err)
		}
		store.set(func(s *triedStore) { s.tries, s.goroutines = nil, 0 })
		return all
	}
	passSeconds := func(b *fixture, n int) {
		for range n {
			b.pass(time.Second)
		}
	}
	t.Run("a store that refuses all at once is asked for a few", func(t *testing.T) {
		inRetries(t, func(b *fixture, store *triedStore) {
			before := runtime.NumGoroutine()
			all := lost(b, store, runs)
			passSeconds(b, 600)
			require.LessOrEqual(b.t, len(store.tries), 50*4)
			require.LessOrEqual(b.t, store.goroutines-before, 10)
			store.set(func(s *triedStore) { s.err, s.tries = nil, nil })
			passSeconds(b, 30)
			require.Equal(b.t, runs, store.recorded(b.t, all, watchdog.EventCancel))
			require.LessOrEqual(b.t, len(store.tries), 25)
			closeAll(b.t, all)
		})
	})
}

// TestRetryRace has runs on the machine's clock, whose lanes share the one timer of all, lose events and close at
// the same time. All is recorded in the end, once.
func TestRetryRace(t *testing.T) {
	store := &triedStore{now: time.Now}
	var wait sync.WaitGroup
	all := make([]*watchdog.Watchdog, 40)
	for i := range all {
		wd, err := watchdog.New(t.Context(), watchdog.Run{ID: fmt.Sprint("s-", i), StartedAt: time.Now()},
			watchdog.Config{Store: store, Logger: quiet})
		require.NoError(t, err)
		all[i] = wd
	}
	store.away()
	for i, wd := range all {
		wait.Go(func() {
			h, err := wd.Hold(context.Background(), "approval", approval)
			require.NoError(t, err)
			h.Close()
			switch i % 4 {
			case 0:
				_ = wd.Close()
			case 1:
				_, err := wd.Cancel(noOutput)
				require.NoError(t, err)
			case 2:
				wd.Fired()
			}
		})
	}
	time.AfterFunc(300*time.Millisecond, store.back)
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
		return store.recorded(t, all, watchdog.EventHold)+
			store.recorded(t, all, watchdog.EventRelease) >= open
	}, 20*time.Second, 20*time.Millisecond, "nobody polls")
	for i, wd := range all {
		wait.Go(func() {
			if err := wd.Close(); err != nil {
				t.Error(i, err)
			}
		})
	}
	wait.Wait()
	require.Equal(t, len(all), store.recorded(t, all, watchdog.EventHold))
	require.Equal(t, len(all), store.recorded(t, all, watchdog.EventRelease))
	require.Equal(t, 10, store.recorded(t, all, watchdog.EventCancel))
}
