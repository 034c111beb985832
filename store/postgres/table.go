package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/store/internal/storeflow"
)

// eventTypes are the types that keep our values as they are. Rejected: jsonb, which cannot hold every JSON text and
// changes the others; char(n), which pads; uuid and timestamp without a zone, which cannot hold every ID and time.
var eventTypes = map[string][]string{
	"id":             {"varchar", "text"},
	"aggregate_type": {"varchar", "text"},
	"aggregate_id":   {"varchar", "text"},
	"event_type":     {"varchar", "text"},
	"payload":        {"json"},
	"timestamp":      {"timestamptz"},
	"consensus_id":   {"varchar", "text"},
}

func (t *transaction) Events() (exists bool, columns []storeflow.EventColumn, err error) {
	var kind string
	err = t.Value(`SELECT coalesce(pg_catalog.max(c.relkind::{text}), '')
		FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid {=} c.relnamespace
		WHERE n.nspname {=} $1 AND c.relname {=} 'events'`, []any{t.store.schema}, &kind)
	switch {
	case err != nil || kind == "":
		return false, nil, err
	case kind != "r" && kind != "p":
		return false, nil, fmt.Errorf("%w (events is not a table)", ErrForeignTable)
	}
	columns, err = t.columns("events")
	return true, columns, err
}

// columns describes the columns of a table. A nondeterministic collation treats different texts as equal.
func (t *transaction) columns(table string) ([]storeflow.EventColumn, error) {
	return rowsOf(t, func(row pgx.CollectableRow) (c storeflow.EventColumn, err error) {
		var kind string
		var nondeterministic bool
		err = row.Scan(&c.Name, &kind, &c.NotNull, &c.HasDefault, &c.Generated, &nondeterministic)
		c.Problem = typeProblem(c.Name, kind, nondeterministic)
		return c, err
	}, `SELECT a.attname::{text}, y.typname::{text}, a.attnotnull,
			a.atthasdef OR a.attidentity {<>} '', a.attgenerated {<>} '' OR a.attidentity {=} 'a',
			coalesce(NOT l.collisdeterministic, false) FROM pg_catalog.pg_attribute a
		JOIN pg_catalog.pg_class c ON c.oid {=} a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid {=} c.relnamespace
		JOIN pg_catalog.pg_type y ON y.oid {=} a.atttypid LEFT JOIN pg_catalog.pg_collation l ON l.oid {=} a.attcollation
		WHERE n.nspname {=} $1 AND c.relname {=} $2 AND a.attnum {>} 0 AND NOT a.attisdropped ORDER BY a.attnum`,
		t.store.schema, table)
}

func (t *transaction) Names(table string) (names []string, err error) {
	columns, err := t.columns(table)
	for _, c := range columns {
		names = append(names, c.Name)
	}
	return names, err
}

func typeProblem(name, kind string, nondeterministic bool) string {
	switch {
	case !slices.Contains(eventTypes[name], kind):
		return fmt.Sprintf("is of type %s, want %s", kind, strings.Join(eventTypes[name], " or "))
	case nondeterministic:
		return "has a nondeterministic collation, which treats different texts as equal"
	default:
		return ""
	}
}

// indexes lists the indexes that a query can use: B-trees that cover all rows. A column name is empty for an
// expression, and for a column that the index sorts by another collation than the table.
func (t *transaction) Indexes() ([]storeflow.EventIndex, error) {
	return rowsOf(t, func(row pgx.CollectableRow) (i storeflow.EventIndex, err error) {
		err = row.Scan(&i.Unique, &i.Columns)
		return i, err
	}, `SELECT i.indisunique AND i.indimmediate, pg_catalog.array_agg(
			CASE WHEN i.indcollation[k.place {-} 1] {=} coalesce(a.attcollation, 0)
			THEN coalesce(a.attname::{text}, '') ELSE '' END ORDER BY k.place) FROM pg_catalog.pg_index i
		JOIN pg_catalog.pg_class c ON c.oid {=} i.indrelid JOIN pg_catalog.pg_namespace n ON n.oid {=} c.relnamespace
		JOIN pg_catalog.pg_class x ON x.oid {=} i.indexrelid JOIN pg_catalog.pg_am m ON m.oid {=} x.relam
		CROSS JOIN pg_catalog.unnest(i.indkey) WITH ORDINALITY AS k (number, place)
		LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid {=} i.indrelid AND a.attnum {=} k.number AND k.number {>} 0
		WHERE n.nspname {=} $1 AND c.relname {=} 'events' AND m.amname {=} 'btree'
			AND i.indpred IS NULL AND i.indisvalid AND k.place {<=} i.indnkeyatts
		GROUP BY i.indexrelid, i.indisunique, i.indimmediate`, t.store.schema)
}

// selectIDLength returns how many characters the aggregate IDs of the events table may have; NULL is any number. What
// the server stores of a length has 4 more.
const selectIDLength = `SELECT a.atttypmod {-} 4 FROM pg_catalog.pg_attribute AS a
	JOIN pg_catalog.pg_class AS c ON c.oid {=} a.attrelid JOIN pg_catalog.pg_namespace AS n ON n.oid {=} c.relnamespace
	WHERE n.nspname {=} $1 AND c.relname {=} 'events' AND a.attname {=} 'aggregate_id' AND a.atttypmod {>=} 4`

// warnOfNarrowIDs warns of an events table whose aggregate IDs are shorter than ours, such as UUIDs of 36 characters. A
// run that is named by one fits, and its layers do not: their IDs are that of the run, a slash and a name.
func (s *Store) warnOfNarrowIDs(ctx context.Context, log *slog.Logger) {
	lengths, err := query(ctx, s, pgx.RowTo[int], selectIDLength, s.schema)
	if err != nil || len(lengths) == 0 || lengths[0] >= event.MaxAggregateID {
		return // the next call finds out what failed
	}
	log.Warn("the aggregate IDs of the events table are too short for layers, whose IDs are that of the run, a slash and "+
		"a name; widen the column: ALTER TABLE events ALTER COLUMN aggregate_id TYPE varchar(255)",
		"database", s.address, "schema", s.schema, "characters", lengths[0])
}
