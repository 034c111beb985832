package sessiontest

import (
	"context"

	"github.com/seed62658d38/watchdog/session"
)

// A Putter is a store under test that can also write rows as another program would.
type Putter interface {
	// Put inserts or replaces rows as they are, in one transaction. The rows have no lease, and nothing else that only
	// a keeper or a sweeper writes: no warning, claim or state.
	Put(ctx context.Context, rows ...session.Session) error
	// Spoil makes a row unreadable, for instance with an invalid time of the last event.
	Spoil(ctx context.Context, runID string) error
}
