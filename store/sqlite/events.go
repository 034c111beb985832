package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed62658d38/watchdog"
)

// Append implements [watchdog.EventStore]. It returns when the events are durable, or when ctx is done. In that case
// the events are not stored, unless they were being written at that moment; the error says which. An append costs one
// sync of the disk, which it shares with the appends of other goroutines.
func (s *Store) Append(ctx context.Context, events ...watchdog.Event) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("append %d events: %w", len(events), err)
	}
	rows, err := encode(events)
	if err != nil {
		return err
	}
	err = s.commit(ctx, len(rows), func(t *transaction) error {
		_, err := t.insertEvents(rows)
		return err
	})
	if errors.Is(err, ErrClosed) {
		return fmt.Errorf("append %d events: %w", len(events), err)
	}
	return err
}

// Read implements [watchdog.EventStore]. If another program wrote a row whose timestamp or payload cannot be read, Read
// returns an error that names the row.
func (s *Store) Read(ctx context.Context, aggregateType, aggregateID string) ([]watchdog.Event, error) {
	events, err := readRows(ctx, s, "events", scanEvent(aggregateType, aggregateID), selectEvents,
		aggregateType, aggregateID)
	slices.SortStableFunc(events, watchdog.Event.Compare) // timestamps of other writers may not sort as text
	return events, err
}

const selectEvents = `SELECT ` + eventColumns + ` FROM main.events WHERE ` + ofAggregate
