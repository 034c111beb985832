package driver

import (
	"context"
	"sync"

	"github.com/seed62658d38/watchdog/internal/ledger"
	"github.com/seed62658d38/watchdog/internal/share"
)

// Shared are the limits that a session draws on with others: a [share.Set], or nothing. Only a program that can share
// limits links that.
type Shared interface {
	sync.Locker
	Take(ctx context.Context, number int, want *ledger.Slice) (fits bool, err error)
	Cover(failed func()) error
	Uncovered() bool
	Owes() bool
	Settle() error
	Close(failed func(l *share.Limit, err error))
	Unpaid() error
}

// unshared is what a session draws on that shares no limits: nothing of it is held, used or owed.
type unshared struct{}

func (unshared) Lock() {}

func (unshared) Unlock() {}

func (unshared) Take(context.Context, int, *ledger.Slice) (fits bool, err error) { return false, nil }

func (unshared) Cover(func()) error { return nil }

func (unshared) Uncovered() bool { return false }

func (unshared) Owes() bool { return false }

func (unshared) Settle() error { return nil }

func (unshared) Close(func(*share.Limit, error)) {}

func (unshared) Unpaid() error { return nil }
