package session

import (
	"context"
	"time"
)

// A Notice is word that somebody is to get: of the end of a run, or an alert. It has no content of the run.
type Notice struct {
	// ID names the notice for whoever gets it twice. That of an end is the ID of its event.
	ID string
	// AggregateType, AggregateID and Type are those of the event. Those of an alert are its own.
	AggregateType, AggregateID, Type string
	// CreatedAt is when the notice was put, by the database's clock.
	CreatedAt time.Time
	// Tries is how often it has been claimed, this time included.
	Tries int
}

// An Outbox keeps notices until they are delivered. A store that has one puts the end of each window into it, in the
// transaction that stores the end event: a notice is there if and only if the event is. Several goroutines and processes
// use it at once, and each notice is delivered at least once.
type Outbox interface {
	// PutNotices adds notices that are of no event: it takes ID, the aggregate and Type of each. A notice whose ID is there
	// already is left as it is.
	PutNotices(ctx context.Context, notices ...Notice) error
	// ClaimNotices takes the notices that are due, at most so many, the oldest first. No other call returns them for so long, by
	// the database's clock; a notice that is neither done nor delayed by then is due again. Notices that another
	// transaction has locked are skipped.
	ClaimNotices(ctx context.Context, most int, lasts time.Duration) ([]Notice, error)
	// FinishNotices removes notices that were delivered, or that nobody is to get any more. One that is not there is no error.
	FinishNotices(ctx context.Context, notices ...Notice) error
	// DelayNotice has a notice be due again after a pause from now, if no other claim has taken it since.
	DelayNotice(ctx context.Context, n Notice, pause time.Duration) error
}
