package postgres

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/storerows"
)

// Transact implements [watchdog.TransactionalStore], in one transaction and four round trips, however many exchanges
// there are; five, if the store cannot use the pool's default_query_exec_mode. Each further exchange with the same
// aggregate may need two more (three), and a Transact that finds one of its events stored already needs one more (two).
// If Transact returns an error, the error says whether the events may be stored, and Kept is as it was.
//
// Each aggregate has one of 64 advisory locks of the database, so a Transact may wait for one with another aggregate,
// as long as the context allows. It waits for no other lock for longer than [session.LockWait].
func (s *Store) Transact(ctx context.Context, exchanges ...*watchdog.Exchange) error {
	return s.write(ctx, fmt.Sprintf("carry out %d exchanges in", len(exchanges)), func(ctx context.Context) error {
		if len(exchanges) == 0 {
			return nil
		}
		kept, err := s.transact(ctx, exchanges)
		if err != nil {
			return err
		}
		for i, e := range exchanges {
			e.Kept = kept[i]
		}
		return nil
	})
}

func (s *Store) transact(ctx context.Context, exchanges []*watchdog.Exchange) (kept [][]watchdog.Event, err error) {
	committing := false
	err = s.onConn(ctx, func(conn *pgx.Conn) error {
		tx, err := conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: beginLimited})
		if err != nil {
			return err
		}
		defer rollback(ctx, tx)
		t := &exchanging{Tx: tx, store: s}
		if kept, err = t.carryOutAll(ctx, exchanges); err != nil {
			return err
		}
		committing = true
		return tx.Commit(ctx)
	})
	switch {
	case err == nil:
		return kept, nil
	case committing:
		return nil, fmt.Errorf("commit, and the events may be stored: %w", err)
	default:
		return nil, fmt.Errorf("%w: %w", errNothingStored, err)
	}
}

// An aggregate is what an exchange is about. Of two exchanges of one the second sees what the first appended.
type aggregate struct{ kind, id string }

func aggregateOf(x *watchdog.Exchange) aggregate { return aggregate{x.AggregateType, x.AggregateID} }

// lockBuckets takes the locks in the order of the list, which is ascending, so that two batches cannot deadlock. It
// does not read the events as well, because its snapshot is older than the locks. The wait for them has no limit,
// because their owners have one: a limit is off when the first is taken, and on again when all are.
var lockBuckets = `WITH locked AS MATERIALIZED (
		SELECT pg_catalog.pg_advisory_xact_lock(b.bucket) FROM pg_catalog.unnest($1::bigint[]) AS b (bucket)
		WHERE ` + withoutLimit + `
	)
	` + limitLocks + ` FROM (SELECT pg_catalog.count(*) FROM locked) AS all_locked`

// bucketMask is how many advisory locks there are for a schema's aggregates, less one.
const bucketMask = 63

// buckets returns the numbers of the advisory locks for the aggregates.
func (s *Store) buckets(exchanges []*watchdog.Exchange) (buckets []int64) {
	base := int64(hashOf("watchdog_transact", s.schema)) &^ bucketMask //nolint:gosec // any number will do
	for _, e := range exchanges {
		buckets = append(buckets, base|int64(hashOf(e.AggregateType, e.AggregateID)&bucketMask)) //nolint:gosec // a few bits
	}
	slices.Sort(buckets)
	return slices.Compact(buckets)
}

func hashOf(first, second string) uint64 { return hash(first + "\x00" + second) }

// An exchanging is the transaction of a Transact.
type exchanging struct {
	pgx.Tx
	store    *Store
	steps    []step // not sent yet
	inserted int64  // of the decided events
	awaited  bool   // awaitStandby was sent
}

// carryOutAll locks the aggregates, carries out the exchanges in their order, and returns what each kept.
func (t *exchanging) carryOutAll(
	ctx context.Context, exchanges []*watchdog.Exchange,
) (kept [][]watchdog.Event, err error) {
	t.add(lockBuckets, []any{t.store.buckets(exchanges)}, nil)
	kept = make([][]watchdog.Event, 0, len(exchanges))
	for _, part := range storerows.WithoutRepeats(exchanges, aggregateOf) {
		events, err := t.carryOut(ctx, part)
		if err != nil {
			return nil, err
		}
		kept = append(kept, events...)
	}
	if t.inserted == 0 && !t.awaited { // nothing was decided, because of an event that the standby may not have
		t.add(awaitStandby, nil, nil)
		return kept, t.send(ctx)
	}
	return kept, nil
}

// carryOut carries out exchanges with different aggregates, and returns what each kept.
func (t *exchanging) carryOut(ctx context.Context, exchanges []*watchdog.Exchange) ([][]watchdog.Event, error) {
	selected, err := t.selectAll(ctx, exchanges)
	if err != nil {
		return nil, err
	}
	all, kept := make([]watchdog.Event, 0, len(exchanges)), make([][]watchdog.Event, len(exchanges))
	for i, e := range exchanges {
		kept[i] = e.Decide(selected[i])
		all = append(all, kept[i]...)
	}
	stored, err := t.insert(ctx, all)
	if err != nil {
		return nil, err
	}
	for i := range kept {
		n := len(kept[i])
		kept[i], stored = stored[:n:n], stored[n:]
	}
	return kept, nil
}

func (t *exchanging) selectAll(ctx context.Context, exchanges []*watchdog.Exchange) ([][]watchdog.Event, error) {
	asked := make([]watchdog.Selection, len(exchanges))
	for i, e := range exchanges {
		asked[i] = e.Selection
	}
	var rows []selectedRow
	t.add(selectSelected, selectArguments(asked), func(r pgx.Rows) (err error) {
		rows, err = pgx.CollectRows(r, scanSelected)
		return err
	})
	err := t.send(ctx)
	return sortSelected(asked, rows), err
}

// insert appends events, and returns what is stored under their IDs: the events themselves, unless an ID was taken.
func (t *exchanging) insert(ctx context.Context, events []watchdog.Event) ([]watchdog.Event, error) {
	columns, err := encode(events)
	if err != nil || len(events) == 0 {
		return nil, err
	}
	before := t.inserted
	t.add(t.store.insertStatement(), columns[:], counting(&t.inserted))
	if err := t.send(ctx); err != nil {
		return nil, err
	}
	if t.inserted-before < int64(len(events)) {
		return t.storedAs(ctx, events, columns[0])
	}
	stored := make([]watchdog.Event, len(events))
	for i, e := range events {
		e.Timestamp, e.Payload = record.Truncate(e.Timestamp), bytes.Clone(e.Payload)
		stored[i] = e
	}
	return stored, nil
}

// selectKept is a statement of its own: an insert does not see the events that it waited for.
const selectKept = `
	SELECT aggregate_type, aggregate_id,` + eventFields + `FROM SCHEMA.events WHERE id {=} ANY ($1::pg_catalog.text[])`

// storedAs reads what is stored under the IDs of the events. If none of the events is new, it has the commit wait for
// the standby.
func (t *exchanging) storedAs(ctx context.Context, events []watchdog.Event, ids any) ([]watchdog.Event, error) {
	var rows []watchdog.Event
	t.add(selectKept, []any{ids}, func(r pgx.Rows) (err error) {
		rows, err = pgx.CollectRows(r, scanWhole)
		return err
	})
	if t.inserted == 0 {
		t.awaited = true
		t.add(awaitStandby, nil, nil)
	}
	if err := t.send(ctx); err != nil {
		return nil, err
	}
	stored := make(map[string]watchdog.Event, len(rows))
	for _, e := range rows {
		stored[e.ID] = e
	}
	return keptOf(events, stored)
}

// scanWhole reads the aggregate and eventFields.
func scanWhole(row pgx.CollectableRow) (watchdog.Event, error) {
	var kind, id string
	e, err := scanEventInto(row, &kind, &id)
	e.AggregateType, e.AggregateID = kind, id
	return e, err
}

// keptOf returns what is stored under the IDs of the events. The caller may change its payloads.
func keptOf(events []watchdog.Event, stored map[string]watchdog.Event) ([]watchdog.Event, error) {
	kept := make([]watchdog.Event, len(events))
	for i, e := range events {
		one, found := stored[e.ID]
		if !found {
			return nil, fmt.Errorf("event %s was deleted by another program", e.ID)
		}
		one.Payload = bytes.Clone(one.Payload)
		kept[i] = one
	}
	return kept, nil
}

func (t *exchanging) add(statement string, arguments []any, read func(pgx.Rows) error) {
	t.steps = append(t.steps, step{t.store.qualify(statement), arguments, read})
}

// send runs the steps, in one round trip if the store's mode is the pool's.
func (t *exchanging) send(ctx context.Context) error {
	steps := t.steps
	t.steps = nil
	return t.store.send(ctx, t, steps...)
}
