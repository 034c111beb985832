package postgres

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed62658d38/watchdog"
)

// The rows go in by ID, so that two batches with the same events wait for each other and not in a circle.
const (
	insertRows = `
		INSERT INTO SCHEMA.events (id, aggregate_type, aggregate_id, event_type, payload, "timestamp", consensus_id)
		SELECT e.id, e.aggregate_type, e.aggregate_id, e.event_type, e.payload::json, e.at, e.consensus_id
		FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::text[])
			WITH ORDINALITY AS e (id, aggregate_type, aggregate_id, event_type, payload, at, consensus_id, place)`
	insertOrder = ` ORDER BY e.id COLLATE "C", e.place ON CONFLICT (id) DO NOTHING`

	insertEvents = insertRows + insertOrder

	// Without an order: that of the database's language is not ours.
	selectEvents = `
		SELECT id, event_type, payload::text, "timestamp", consensus_id FROM SCHEMA.events
		WHERE aggregate_type = $1 AND aggregate_id = $2`
)

// encode makes of events the columns that insertRows takes.
func encode(events []watchdog.Event) (columns [7]any, err error) {
	var texts [5][]string
	var at []time.Time
	var consensus []*string
	for i, e := range events {
		if err := e.Validate(); err != nil {
			return columns, fmt.Errorf("append event %d of %d: %w", i+1, len(events), err)
		}
		for column, text := range []string{e.ID, e.AggregateType, e.AggregateID, e.Type, string(e.Payload)} {
			texts[column] = append(texts[column], text)
		}
		at = append(at, micro(e.Timestamp))
		consensus = append(consensus, nullable(e.ConsensusID))
	}
	for column := range texts {
		columns[column] = texts[column]
	}
	columns[5], columns[6] = at, consensus
	return columns, nil
}

// micro is a time as the tables have it.
func micro(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// nullable keeps an absent consensus ID as NULL.
func nullable(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// scanEvent reads the columns of selectEvents. Nothing of a payload gets into its errors.
func scanEvent(row pgx.CollectableRow) (e watchdog.Event, err error) {
	var kind, payload, consensus pgtype.Text
	var at pgtype.Timestamptz
	if err := row.Scan(&e.ID, &kind, &payload, &at, &consensus); err != nil {
		return e, fmt.Errorf("read a row: %w", err)
	}
	if !at.Valid || at.InfinityModifier != pgtype.Finite {
		return e, fmt.Errorf("event %s: column timestamp does not hold a time", e.ID)
	}
	if !payload.Valid {
		payload.String = "{}"
	}
	e.Type, e.Payload, e.Timestamp, e.ConsensusID = kind.String, []byte(payload.String), at.Time.UTC(), consensus.String
	return e, nil
}
