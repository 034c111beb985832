package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/storeflow"
)

// A Follow pauses between two polls, for ten times as long as a poll takes, within these limits.
const (
	shortestPause = time.Second
	longestPause  = 5 * time.Second
)

// markOf1 is the mark $1 as a transaction, or NULL if there is none.
const markOf1 = `CASE WHEN $1::{text} {<>} '' THEN $1::{text}::pg_catalog.xid8 END`

// selectFed returns the events of transactions from the mark $1 on, and the next mark. As in selectEnded, a mark is the
// oldest transaction that was still open. The age of a transaction is how many have begun since; below 0, it is so old
// that its number is ahead of ours. There is always a row. If no transaction has begun since the mark, the server does
// not read the table.
const selectFed = `SELECT pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())::{text}, e.*
	FROM (VALUES (1)) AS one LEFT JOIN (
		SELECT aggregate_id,` + eventFields + `FROM SCHEMA.events
		WHERE aggregate_type {=} '` + watchdog.AggregateType + `'
			AND (SELECT coalesce(` + markOf1 + `, '0') {<} pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot()))
			AND pg_catalog.age(xmin) {>=} 0 AND pg_catalog.age(xmin) {<=} (
				SELECT pg_catalog.age(coalesce(` + markOf1 + `,
					pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot()))::pg_catalog.xid)) %s
		OFFSET 0) AS e ON true`

// Follow implements [watchdog.FeedStore]. It polls once a second, or once in up to five if a poll takes more than
// a tenth of a second, and holds no connection between polls. It finds new events by the transactions that wrote them:
// it sees every writer's, whatever their timestamps.
//
// If nothing was written to the server since the last poll, a poll reads nothing. Otherwise it reads the events of the
// aggregate, or, without one, all events of [watchdog.AggregateType]: a tenth of a second for a million. While a
// transaction stays open, each poll reads the events since its start again, and Follow skips those it has told. An
// event that another program updates is told again. Where the server's transaction numbers have wrapped around, an
// event as old as that can be told once more.
//
// Told may call the store, and close it. Follow then returns an error that wraps [ErrClosed].
//
// Rejected: a notification by each append. Commits with one wait for each other, and sixteen writers took five times as
// long or more. Nor does it come from other writers.
func (s *Store) Follow(ctx context.Context, aggregateID string, ready func(), told func(watchdog.Event)) error {
	f := &feed{store: s, aggregateID: aggregateID}
	return s.whileOpen(ctx, "follow", func(ctx context.Context) error { return f.run(ctx, ready, told) })
}

// A feed is the state of a Follow.
type feed struct {
	store       *Store
	aggregateID string
	mark        string
	known       map[string]bool // the IDs that the last poll read
}

// run ends with the error of the context or of a poll.
func (f *feed) run(ctx context.Context, ready func(), told func(watchdog.Event)) error {
	_, pause, err := f.poll(ctx)
	if err != nil {
		return err
	}
	ready()
	return storeflow.Follow(ctx, pause, f.store.isClosing, told, f.poll)
}

// poll returns the new events, sorted, and the pause before the next poll. Of what it reads, the poll before has read
// each event that was stored then. The first poll returns events that were stored before it, but after the start of a
// transaction that is open.
func (f *feed) poll(ctx context.Context) (events []watchdog.Event, pause time.Duration, err error) {
	began := time.Now()
	statement, arguments := f.statement()
	rows, err := ask(ctx, f.store, f.store.do, "follow", scanFed, statement, arguments...)
	if err != nil {
		return nil, 0, err
	}
	f.mark = rows[0].mark
	known := make(map[string]bool, len(rows))
	for _, r := range rows {
		if !r.found {
			break // the row without an event
		}
		known[r.event.ID] = true
		if !f.known[r.event.ID] {
			events = append(events, r.event)
		}
	}
	f.known = known
	slices.SortFunc(events, watchdog.Event.Compare)
	return events, min(max(f.store.followPause, 10*time.Since(began)), longestPause), nil
}

func (f *feed) statement() (statement string, arguments []any) {
	if f.aggregateID == "" {
		return fmt.Sprintf(selectFed, ""), []any{f.mark}
	}
	return fmt.Sprintf(selectFed, "AND aggregate_id {=} $2"), []any{f.mark, f.aggregateID}
}

// A fedRow is a row of selectFed.
type fedRow struct {
	mark  string
	found bool
	event watchdog.Event
}

func scanFed(row pgx.CollectableRow) (r fedRow, err error) {
	if row.RawValues()[1] == nil { // the row without an event
		err = row.Scan(&r.mark, nil, nil, nil, nil, nil, nil)
		return r, err
	}
	var aggregateID string
	r.found = true
	r.event, err = scanEventInto(row, &r.mark, &aggregateID)
	r.event.AggregateType, r.event.AggregateID = watchdog.AggregateType, aggregateID
	return r, err
}

// The expressions of the index of layers. A query must repeat them word for word to use it.
//
// The server fails to read a payload with an escape such as \u0000, and an index on what it reads would refuse the
// event. So all payloads with \u have one key, and Layers decodes them. The key is cut, because an index entry has a
// limit.
const (
	namesParent = `aggregate_type {=} '` + watchdog.AggregateType + `' AND ` +
		`pg_catalog.strpos(payload::{text}, '"parent"') {>} 0`
	escaped   = `E'\\u'`
	parentKey = `CASE WHEN pg_catalog.strpos(payload::{text}, ` + escaped + `) {>} 0 THEN ` + escaped + `
		ELSE pg_catalog.left(payload {->>} 'parent', 255) END`
)

const createParentIndex = `CREATE INDEX IF NOT EXISTS watchdog_events_parent
		ON SCHEMA.events ((` + parentKey + `)) WHERE ` + namesParent

const selectLayers = `SELECT aggregate_id, payload::{text} FROM SCHEMA.events
	WHERE ` + namesParent + ` AND ` + parentKey + ` {=} ANY (ARRAY[
		pg_catalog.left($1::{text}, 255), ` + escaped + `])`

// Layers implements [watchdog.FeedStore], in one round trip. It reads the events that name the parent, and all events
// that name any parent and have \u in their payload. An empty parent has no layers.
func (s *Store) Layers(ctx context.Context, parent string) ([]string, error) {
	if parent == "" {
		return []string{}, s.do(ctx, "find the layers in", func(context.Context) error { return nil })
	}
	rows, err := ask(ctx, s, s.do, "find the layers of "+parent+" in",
		pgx.RowToStructByPos[layerRow], selectLayers, parent)
	if err != nil {
		return nil, err
	}
	layers := []string{}
	for _, r := range rows {
		if textIn(r.Payload, "parent") == parent {
			layers = append(layers, r.AggregateID)
		}
	}
	slices.Sort(layers)
	return slices.Compact(layers), nil
}

// A layerRow is a row of selectLayers.
type layerRow struct {
	AggregateID string
	Payload     string
}

// textIn returns a text in a JSON object, nothing if there is none by the name. The fields of a struct ignore case.
func textIn(object, name string) (text string) {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal([]byte(object), &fields)
	if json.Unmarshal(fields[name], &text) != nil {
		return ""
	}
	return text
}
