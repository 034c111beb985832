package watchdog_test

import (
	"context"
	"errors"
	"sync"

	"github.com/seed62658d38/watchdog"
)

var errDiskFull = errors.New("disk full")

// flakyStore is a Memory that can be told to fail or to hang. It is not a *Memory to the watchdog, so that it is waited for.
type flakyStore struct {
	Memory watchdog.Memory

	mu             sync.Mutex
	fail           error         // what Append returns
	hang           chan struct{} // what Append waits for
	ignoresContext bool          // whether it waits on when its context ends
	failGet        error         // what Read returns
	appends        int           // how often Append was called
}

func (s *flakyStore) set(change func(s *flakyStore)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *flakyStore) Append(ctx context.Context, events ...watchdog.Event) error {
	s.mu.Lock()
	fail, hang, ignoresContext := s.fail, s.hang, s.ignoresContext
	s.appends++
	s.mu.Unlock()
	if hang != nil {
		if err := wait(ctx, hang, ignoresContext); err != nil {
			return err
		}
		ctx = context.WithoutCancel(ctx)
	}
	if fail != nil {
		return fail
	}
	return s.Memory.Append(ctx, events...)
}

func wait(ctx context.Context, hang chan struct{}, ignoresContext bool) error {
	if ignoresContext {
		<-hang
		return nil
	}
	select {
	case <-hang:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *flakyStore) Read(ctx context.Context, aggregateType, aggregateID string) ([]watchdog.Event, error) {
	s.mu.Lock()
	fail := s.failGet
	s.mu.Unlock()
	if fail != nil {
		return nil, fail
	}
	return s.Memory.Read(ctx, aggregateType, aggregateID)
}
