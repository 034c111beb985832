package watchdog_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
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

// away has the store take nothing, and forgets what it was asked.
func (s *triedStore) away() {
	s.set(func(s *triedStore) { s.err, s.tries, s.events = errDiskFull, nil, 0 })
}

func (s *triedStore) back() { s.set(func(s *triedStore) { s.err = nil }) }

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
