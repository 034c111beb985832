package watchdog_test

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// A countingStore is a Memory that counts what is asked of it, and can be told to be slow, to hang or to refuse. It is
// not a *Memory to the watchdog, so that it is waited for.
type countingStore struct {
	watchdog.Memory

	delay   time.Duration
	refused string                // the run of which nothing is taken
	before  func(context.Context) // what each Append and Transact does first

	mu                 sync.Mutex
	hang               chan struct{} // what each Append and Transact waits for
	ignoresContext     bool
	transacts, appends []int // how many exchanges and events each had
	goroutines         int   // the most that were seen
}

func (s *countingStore) answer(ctx context.Context, asked *[]int, n int) error {
	s.mu.Lock()
	*asked = append(*asked, n)
	s.goroutines = max(s.goroutines, runtime.NumGoroutine())
	hang := s.hang
	s.mu.Unlock()
	if s.before != nil {
		s.before(ctx)
	}
	time.Sleep(s.delay)
	if hang != nil {
		return wait(ctx, hang, s.ignoresContext)
	}
	return nil
}

func (s *countingStore) setHang(hang chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hang = hang
}

func (s *countingStore) Append(ctx context.Context, events ...watchdog.Event) error {
	if err := s.answer(ctx, &s.appends, len(events)); err != nil {
		return err
	}
	if slices.ContainsFunc(events, func(e watchdog.Event) bool { return e.AggregateID == s.refused }) {
		return errRefused
	}
	return s.Memory.Append(context.WithoutCancel(ctx), events...)
}

func (s *countingStore) Transact(ctx context.Context, exchanges ...*watchdog.Exchange) error {
	if err := s.answer(ctx, &s.transacts, len(exchanges)); err != nil {
		return err
	}
	if slices.ContainsFunc(exchanges, func(x *watchdog.Exchange) bool { return x.AggregateID == s.refused }) {
		return errRefused
	}
	return s.Memory.Transact(context.WithoutCancel(ctx), exchanges...)
}

// recorded counts the runs that have one event of the kind.
func (s *countingStore) recorded(t *testing.T, all []*watchdog.Watchdog, kind string) (n int) {
	t.Helper()
	return recordedIn(t, &s.Memory, all, kind)
}

func recordedIn(t *testing.T, store *watchdog.Memory, all []*watchdog.Watchdog, kind string) (n int) {
	t.Helper()
	for _, wd := range all {
		events, err := store.Read(context.Background(), watchdog.AggregateType, wd.ID())
		require.NoError(t, err)
		of := slices.DeleteFunc(events, func(e watchdog.Event) bool { return e.Type != kind })
		require.LessOrEqual(t, len(of), 1)
		n += len(of)
	}
	return n
}
