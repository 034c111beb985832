package watchdog_test

import (
	"context"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// An awayStore is a database of events and sessions that can be away: it fails, or is hung until it is back.
type awayStore struct {
	session.Memory
	flaky flakyStore
}

func (s *awayStore) Append(ctx context.Context, events ...watchdog.Event) error {
	if err := s.flaky.Append(ctx); err != nil {
		return err
	}
	return s.Memory.Append(context.WithoutCancel(ctx), events...)
}

func (s *awayStore) Transact(ctx context.Context, exchanges ...*watchdog.Exchange) error {
	if err := s.flaky.Append(ctx); err != nil {
		return err
	}
	return s.Memory.Transact(context.WithoutCancel(ctx), exchanges...)
}

// leave has the store away, and returns what brings it back.
func (s *awayStore) leave(hangs bool) (back func()) {
	hang := make(chan struct{})
	s.flaky.set(func(f *flakyStore) {
		if f.fail = errDiskFull; hangs {
			f.fail, f.hang = nil, hang
		}
	})
	return func() {
		s.flaky.set(func(f *flakyStore) { f.fail, f.hang = nil, nil })
		close(hang)
	}
}
