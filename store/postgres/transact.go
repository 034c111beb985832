package postgres

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/store/internal/storeflow"
)

// Transact implements [event.TransactionalStore], in one transaction and four round trips, however many exchanges
// there are; five, if the store cannot use the pool's default_query_exec_mode. Each further exchange with the same
// aggregate may need two more (three), and a Transact that finds one of its events stored already needs one more (two).
// If Transact returns an error, the error says whether the events may be stored, and Kept is as it was.
//
// Each aggregate has one of 64 advisory locks of the database, so a Transact may wait for one with another aggregate,
// as long as the context allows. It waits for no other lock for longer than [session.LockWait].
func (s *Store) Transact(ctx context.Context, exchanges ...*event.Exchange) error {
	return s.write(ctx, fmt.Sprintf("carry out %d exchanges in", len(exchanges)), func(ctx context.Context) error {
		if len(exchanges) == 0 {
			return nil
		}
		var kept [][]event.Event
		committing := false
		err := s.inTransaction(ctx, func(t *transaction) (err error) {
			kept, err = (&exchanging{transaction: t}).carryOut(exchanges)
			committing = err == nil
			return err
		})
		switch {
		case err == nil:
			for i, e := range exchanges {
				e.Kept = kept[i]
			}
			return nil
		case committing:
			return fmt.Errorf("commit, and the events may be stored: %w", err)
		default:
			return fmt.Errorf("%w: %w", errNothingStored, err)
		}
	})
}

// lockBuckets takes the locks in the order of the list, which is ascending, so that two batches cannot deadlock. It
// does not read the events as well, because its snapshot is older than the locks. The wait for them has no limit,
// because their owners have one: a limit is off when the first is taken, and on again when all are.
var lockBuckets = `WITH locked AS MATERIALIZED (
		SELECT pg_catalog.pg_advisory_xact_lock(b.bucket) FROM pg_catalog.unnest($1::bigint[]) AS b (bucket)
		WHERE (SELECT pg_catalog.set_config('lock_timeout', '0', true)) IS NOT NULL) ` +
	limitLocks + ` FROM (SELECT pg_catalog.count(*) FROM locked) AS all_locked`

// bucketMask is how many advisory locks there are for a schema's aggregates, less one.
const bucketMask = 63

func (s *Store) buckets(exchanges []*event.Exchange) (buckets []int64) {
	base := int64(hashOf("watchdog_transact", s.schema)) &^ bucketMask //nolint:gosec // any number will do
	for _, e := range exchanges {
		buckets = append(buckets, base|int64(hashOf(e.AggregateType, e.AggregateID)&bucketMask)) //nolint:gosec // a few bits
	}
	slices.Sort(buckets)
	return slices.Compact(buckets)
}

func hashOf(first, second string) uint64 { return hash(first + "\x00" + second) }

type exchanging struct {
	*transaction
	first    []step // is sent with the next steps
	inserted int64  // of the decided events
	awaited  bool   // awaitStandby was sent
}

// carryOut locks the aggregates, carries out the exchanges in their order, and returns what each kept.
func (t *exchanging) carryOut(exchanges []*event.Exchange) ([][]event.Event, error) {
	t.first = []step{running(t.store, lockBuckets, t.store.buckets(exchanges))}
	decide := func(x *event.Exchange, selected []event.Event) ([]event.Event, error) {
		return x.Decide(selected), nil
	}
	kept, err := storeflow.CarryOut(t, exchanges, decide)
	if err == nil && t.inserted == 0 && !t.awaited { // nothing was decided, because of an event the standby may not have
		err = t.send(running(t.store, awaitStandby))
	}
	return kept, err
}

// Select implements [storeflow.ExchangeTx], as the next methods do.
func (t *exchanging) Select(exchanges []*event.Exchange) ([][]event.Event, error) {
	asked := make([]event.Selection, len(exchanges))
	for i, e := range exchanges {
		asked[i] = e.Selection
	}
	var rows []selectedRow
	err := t.send(append(t.first, reading(t.store, &rows, scanSelected, selectSelected, selectArguments(asked)...))...)
	t.first = nil
	return sortSelected(asked, rows), err
}

func (t *exchanging) Insert(events []event.Event) (as []event.Event, inserted int, err error) {
	columns, err := encode(events)
	if err != nil || len(events) == 0 {
		return nil, 0, err
	}
	before := t.inserted
	for i, e := range events {
		e.Timestamp, e.Payload = storeflow.Truncate(e.Timestamp), bytes.Clone(e.Payload)
		events[i] = e
	}
	err = t.send(step{t.store.qualify(insertEvents), columns[:], counting(&t.inserted)})
	return events, int(t.inserted - before), err
}

// selectKept is a statement of its own: an insert does not see the events that it waited for.
const selectKept = `
	SELECT aggregate_type, aggregate_id,` + eventFields + `FROM SCHEMA.events WHERE id {=} ANY ($1::{text}[])`

// Stored has the commit wait for the standby as well if none of the events is new.
func (t *exchanging) Stored(events []event.Event) (rows []event.Event, err error) {
	var ids array
	for _, e := range events {
		ids = appendText(ids, e.ID)
	}
	steps := []step{reading(t.store, &rows, scanWhole, selectKept, ids.String())}
	if t.awaited = t.inserted == 0; t.awaited {
		steps = append(steps, running(t.store, awaitStandby))
	}
	err = t.send(steps...)
	return rows, err
}

func scanWhole(row pgx.CollectableRow) (event.Event, error) {
	var kind, id string
	e, err := scanEventInto(row, &kind, &id)
	e.AggregateType, e.AggregateID = kind, id
	return e, err
}
