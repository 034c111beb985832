package postgres

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/seed62658d38/watchdog/event"
)

// selectSelected reads several selections. Its rows have the place of their selection in the list, from 1.
//
//   - $1, $2 and $3: the aggregates, and their times since
//   - $4 and $5: the IDs, each with its place
//   - $6 and $7: the types of the latest event, each with its place
//   - $8 and $9: until when, and how many events, the callers know, NULL for none
//
// Its form makes the planner look up each part in its index, whatever the table holds: OFFSET 0 keeps it from joining
// the whole table, and it expects few rows of a range with two ends. Coalesce leaves it only the primary key. The
// latest time is looked up by itself: a sort by time and ID would go on to an event of the time before. Without types
// it is not looked up at all, because that search would go on to the first event of the aggregate. The parameters are
// in selects of their own, so that it uses one plan for lists of all lengths.
const selectSelected = `WITH asked AS MATERIALIZED (SELECT a.*, l.kinds, CASE WHEN a.known {=} (
				SELECT pg_catalog.count(*) FROM SCHEMA.events
				WHERE aggregate_type {=} a.kind AND aggregate_id {=} a.aggregate
					AND "timestamp" {>=} a.since AND "timestamp" {<} a.until AND a.known IS NOT NULL)
			THEN a.until ELSE a.since END AS first
		FROM unnest((SELECT $1::{text}[]), (SELECT $2::{text}[]), (SELECT $3::{time}[]),
				(SELECT $8::{time}[]), (SELECT $9::bigint[]))
			WITH ORDINALITY AS a (kind, aggregate, since, until, known, place)
		LEFT JOIN (SELECT l.place, pg_catalog.array_agg(l.kind) AS kinds
			FROM unnest((SELECT $6::bigint[]), (SELECT $7::{text}[])) AS l (place, kind) GROUP BY 1) AS l ON l.place {=} a.place)
	SELECT asked.place, e.* FROM asked CROSS JOIN LATERAL (SELECT` + eventFields + `FROM SCHEMA.events
		WHERE aggregate_type {=} asked.kind AND aggregate_id {=} asked.aggregate
			AND "timestamp" {>=} asked.first AND "timestamp" {<=} 'infinity' OFFSET 0) AS e
	UNION ALL
	SELECT asked.place, e.* FROM asked CROSS JOIN LATERAL (SELECT` + eventFields + `FROM SCHEMA.events
		WHERE aggregate_type {=} asked.kind AND aggregate_id {=} asked.aggregate AND event_type {=} ANY (asked.kinds)
			AND "timestamp" {=} (
				SELECT "timestamp" FROM SCHEMA.events
				WHERE aggregate_type {=} asked.kind AND aggregate_id {=} asked.aggregate AND event_type {=} ANY (asked.kinds)
					AND "timestamp" {<} asked.since AND asked.kinds IS NOT NULL ORDER BY "timestamp" DESC LIMIT 1)
		ORDER BY id COLLATE pg_catalog."C" DESC LIMIT 1) AS e
	UNION ALL
	SELECT asked.place, e.* FROM unnest((SELECT $4::bigint[]), (SELECT $5::{text}[])) AS w (place, id)
	JOIN asked ON asked.place {=} w.place CROSS JOIN LATERAL (SELECT` + eventFields + `FROM SCHEMA.events
		WHERE id {=} w.id AND coalesce(aggregate_type {=} asked.kind, false)
			AND coalesce(aggregate_id {=} asked.aggregate, false) OFFSET 0) AS e`

// Select implements [event.TransactionalStore], in one round trip. Its errors are those of [Store.Read].
func (s *Store) Select(ctx context.Context, selection event.Selection) ([]event.Event, error) {
	asked := []event.Selection{selection}
	rows, err := ask(ctx, s, s.do, "select from", scanSelected, selectSelected, selectArguments(asked)...)
	if err != nil {
		return nil, err
	}
	return sortSelected(asked, rows)[0], nil
}

func selectArguments(asked []event.Selection) []any {
	var kinds, aggregates, since, ids, idPlaces, latest, latestPlaces, until, known array
	for i, a := range asked {
		place := int64(i) + 1
		kinds, aggregates = appendText(kinds, a.AggregateType), appendText(aggregates, a.AggregateID)
		since, until = since.since(a.Since), until.since(a.Until)
		if a.Known > 0 && !a.Until.IsZero() {
			known = known.number(int64(a.Known))
		} else {
			known = known.null()
		}
		for _, id := range a.IDs {
			ids, idPlaces = appendText(ids, id), idPlaces.number(place)
		}
		for _, kind := range a.LatestOf {
			latest, latestPlaces = appendText(latest, kind), latestPlaces.number(place)
		}
	}
	return []any{
		kinds.String(), aggregates.String(), since.String(), idPlaces.String(), ids.String(), latestPlaces.String(),
		latest.String(), until.String(), known.String()}
}

// since appends a time, rounded up to the microsecond: what is stored is at or after both, or before both.
func (a array) since(since time.Time) array {
	switch year := since.UTC().Year(); {
	case since.IsZero():
		return a.null()
	case year < 1:
		return appendText(a, "-infinity")
	case year > 9999:
		return appendText(a, "infinity")
	}
	return a.time(since.Add(time.Microsecond - 1))
}

type selectedRow struct {
	place int64
	event event.Event
}

func scanSelected(row pgx.CollectableRow) (r selectedRow, err error) {
	r.event, err = scanEventInto(row, &r.place)
	return r, err
}

func sortSelected(asked []event.Selection, rows []selectedRow) [][]event.Event {
	selected := make([][]event.Event, len(asked))
	for i := range selected {
		selected[i] = []event.Event{}
	}
	for _, r := range rows {
		a := asked[r.place-1]
		r.event.AggregateType, r.event.AggregateID = a.AggregateType, a.AggregateID
		selected[r.place-1] = append(selected[r.place-1], r.event)
	}
	for i, events := range selected {
		slices.SortFunc(events, event.Event.Compare)
		selected[i] = slices.CompactFunc(events, func(a, b event.Event) bool { return a.ID == b.ID })
	}
	return selected
}

// The expressions of the index of layers. A query must repeat them word for word to use it.
//
// The server fails to read a payload with an escape such as \u0000, and an index on what it reads would refuse the
// event. So all payloads with \u have one key, and Layers decodes them. The key is cut: an index entry has a limit.
const (
	namesParent = `aggregate_type {=} '` + event.AggregateType + `' AND ` +
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

// Layers implements [event.LayerStore], in one round trip. It reads the events that name the parent, and all events
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
