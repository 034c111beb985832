package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
)

// A Notice is word that somebody is to get: of the end of a run, or an alert. It has no content of the run.
type Notice struct {
	// ID names the notice for whoever gets it twice. That of an end is the ID of its event.
	ID string
	// AggregateType, AggregateID and Type are those of the event. Those of an alert are its own.
	AggregateType, AggregateID, Type string
	// CreatedAt is when the notice was put, by the database's clock. The store sets it.
	CreatedAt time.Time
	// Tries is how often it has been claimed, this time included. The store sets it.
	Tries int
	// Waited is the sum of the pauses of its delays. Unlike CreatedAt it is right also if the database's clock was wrong
	// when the notice was put. The store sets it.
	Waited time.Duration
}

// Validate returns an error that wraps [watchdog.ErrInvalid] if the ID, the aggregate or the type could not be those of
// an event. The PutNotices of every store calls it.
func (n Notice) Validate() error {
	asEvent := watchdog.Event{
		ID: n.ID, AggregateType: n.AggregateType, AggregateID: n.AggregateID, Type: n.Type,
		Payload: []byte("{}"), Timestamp: time.Unix(0, 0),
	}
	if err := asEvent.Validate(); err != nil {
		return fmt.Errorf("put notice %q: %w", n.ID, err)
	}
	return nil
}

// An Outbox keeps notices until they are delivered. A store that has one puts the end of each window into it, a
// [watchdog.EventCancel] or a [watchdog.EventComplete], in the transaction that stores the event: a notice is put if
// and only if the event is stored, and once, however often that is tried. Several goroutines and processes use it at
// once, and each notice is delivered at least once.
//
// Every call of an outbox that is off wraps [ErrNoOutbox].
type Outbox interface {
	// PutNotices adds notices that are of no event: it takes ID, the aggregate and Type of each. A notice whose ID is
	// there already is left as it is. If a notice is invalid ([Notice.Validate]), none is added.
	PutNotices(ctx context.Context, notices ...Notice) error
	// ClaimNotices takes notices that are due, at most so many: first those that were never claimed, in the order in which
	// they were put, and then those that were, the longest due first. No other call returns them for so long, by the
	// database's clock. A notice that is neither finished nor delayed by then is due again. Notices that another
	// transaction has locked are skipped. To ask for fewer than one, or for less than no time, is an error.
	//
	// A claim or a pause that began more than a day after now is over: the database's clock has been set back since, and
	// the notice would wait until it is there again.
	ClaimNotices(ctx context.Context, most int, lasts time.Duration) ([]Notice, error)
	// FinishNotices removes notices that were delivered, or that nobody is to get any more, whoever has claimed them
	// since. One that is not there is no error.
	FinishNotices(ctx context.Context, notices ...Notice) error
	// DelayNotice has a claimed notice be due again after a pause from now, if no other claim has taken it since: its
	// Tries tells. The pause is added to its Waited, also if another delay follows before it is over. A negative pause is
	// an error.
	DelayNotice(ctx context.Context, n Notice, pause time.Duration) error
}

// ErrNoOutbox says that a store was opened without its outbox. Every call of an [Outbox] that is off wraps it, and
// changes nothing.
var ErrNoOutbox = errors.New("the store has no outbox: set Outbox in its configuration, " +
	"in each process that writes ends and in each that delivers notices")
