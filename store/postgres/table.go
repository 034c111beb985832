package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// ErrForeignTable is returned by [Open] and [New] for a schema whose table named events is not one that this package can append to, or whose watchdog_sessions is another
// program's. The error names the columns that are missing or in the way, and nothing was written.
var ErrForeignTable = errors.New(
	"its tables cannot hold watchdog events: change them, or keep the events in a schema of their own")

// ourTypes are the types that keep our values as they are. Rejected: jsonb, which cannot hold every JSON text and changes the others; char(n), which pads; uuid and timestamp
// without a zone, which cannot hold every ID and not every moment.
var ourTypes = map[string][]string{
	"id": {"varchar", "text"}, "aggregate_type": {"varchar", "text"}, "aggregate_id": {"varchar", "text"}, "event_type": {"varchar", "text"},
	"payload": {"json"}, "timestamp": {"timestamptz"}, "consensus_id": {"varchar", "text"},
}

var ourColumns = []string{"id", "aggregate_type", "aggregate_id", "event_type", "payload", "timestamp", "consensus_id"}

// A column is what the server knows of a column of the events table.
type column struct {
	name, kind string
	notNull    bool
	filled     bool // by the server, where nothing is said
	generated  bool // and nothing can be said
	folds      bool // takes different texts for the same
}

// checkTables says whether all tables are there, and fails if there is one that cannot be used in place.
func (t *transaction) checkTables() (complete bool, err error) {
	events, err := t.checkEvents()
	if err != nil {
		return false, err
	}
	sessions, err := t.checkSessions()
	return events && sessions, err
}

func (t *transaction) checkEvents() (exists bool, err error) {
	kind, err := t.relation("events")
	if err != nil || kind == "" {
		return false, err
	}
	if kind != "r" && kind != "p" {
		return false, fmt.Errorf("%w (events is not a table)", ErrForeignTable)
	}
	columns, err := t.columns("events")
	if err != nil {
		return false, err
	}
	indexes, err := t.indexes()
	if err != nil {
		return false, err
	}
	flaws := slices.Concat(ourFlaws(columns), otherFlaws(columns), keyFlaws(columns, indexes))
	if len(flaws) > 0 {
		return false, fmt.Errorf("%w (events: %s)", ErrForeignTable, strings.Join(flaws, "; "))
	}
	return true, nil
}

// checkSessions says whether there is a watchdog_sessions table, and fails if it is not ours.
func (t *transaction) checkSessions() (exists bool, err error) {
	kind, err := t.relation("watchdog_sessions")
	if err != nil || kind == "" {
		return false, err
	}
	columns, err := t.columns("watchdog_sessions")
	if err != nil {
		return false, err
	}
	missing := slices.DeleteFunc(slices.Clone(sessionColumns), func(name string) bool {
		return slices.ContainsFunc(columns, func(c column) bool { return c.name == name })
	})
	if len(missing) > 0 {
		return false, fmt.Errorf("%w (watchdog_sessions lacks %s)", ErrForeignTable, strings.Join(missing, ", "))
	}
	return true, nil
}

// ourFlaws says which of our columns are missing or would not take our values.
func ourFlaws(columns []column) (flaws []string) {
	for _, name := range ourColumns {
		at := slices.IndexFunc(columns, func(c column) bool { return c.name == name })
		if at < 0 {
			flaws = append(flaws, "column "+name+" is missing")
			continue
		}
		if flaw := columns[at].flaw(); flaw != "" {
			flaws = append(flaws, "column "+name+" "+flaw)
		}
	}
	return flaws
}

// flaw says why one of our columns would not keep our values as they are.
func (c column) flaw() string {
	switch {
	case c.generated:
		return "is generated"
	case c.name == "consensus_id" && c.notNull:
		return "must allow NULL"
	case !slices.Contains(ourTypes[c.name], c.kind):
		return fmt.Sprintf("is of type %s, want %s", c.kind, strings.Join(ourTypes[c.name], " or "))
	case c.folds:
		return "has a collation that takes different texts for the same"
	default:
		return ""
	}
}

// otherFlaws says which columns beyond ours want a value that we do not have.
func otherFlaws(columns []column) (flaws []string) {
	for _, c := range columns {
		if !slices.Contains(ourColumns, c.name) && c.notNull && !c.filled {
			flaws = append(flaws, "column "+c.name+" is NOT NULL and has no default")
		}
	}
	return flaws
}

// keyFlaws says whether IDs are unique, which is what makes an append idempotent.
func keyFlaws(columns []column, indexes []index) []string {
	there := slices.ContainsFunc(columns, func(c column) bool { return c.name == "id" })
	unique := slices.ContainsFunc(indexes, func(i index) bool { return i.unique && slices.Equal(i.columns, []string{"id"}) })
	if there && !unique {
		return []string{"column id is not the primary key, nor unique by itself"}
	}
	return nil
}

// relation is the kind of a table or view of our schema, as pg_class has it; empty where there is none.
func (t *transaction) relation(name string) (kind string, err error) {
	err = t.values(`
		SELECT coalesce(max(c.relkind::text), '') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relname = $2`, []any{t.store.schema, name}, &kind)
	return kind, err
}

func (t *transaction) columns(table string) ([]column, error) {
	rows, err := t.Query(t.ctx, `
		SELECT a.attname::text, y.typname::text, a.attnotnull, a.atthasdef OR a.attidentity <> '', a.attgenerated <> '' OR a.attidentity = 'a',
			coalesce(NOT l.collisdeterministic, false)
		FROM pg_attribute a
		JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
		JOIN pg_type y ON y.oid = a.atttypid LEFT JOIN pg_collation l ON l.oid = a.attcollation
		WHERE n.nspname = $1 AND c.relname = $2 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`,
		t.store.unprepared([]any{t.store.schema, table})...)
	if err != nil {
		return nil, fmt.Errorf("list the columns of %s: %w", table, err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (c column, err error) {
		err = row.Scan(&c.name, &c.kind, &c.notNull, &c.filled, &c.generated, &c.folds)
		return c, err
	})
}

// An index of the events table that covers all rows.
type index struct {
	unique  bool
	columns []string // empty for an expression
}

// leads says whether the index begins with the columns.
func (i index) leads(columns []string) bool {
	return len(i.columns) >= len(columns) && slices.Equal(i.columns[:len(columns)], columns)
}

// indexes lists those that a search can use: b-trees, under the order of the table's own collation.
func (t *transaction) indexes() ([]index, error) {
	rows, err := t.Query(t.ctx, `
		SELECT i.indisunique AND i.indimmediate, array_agg(CASE WHEN i.indcollation[k.place - 1] = coalesce(a.attcollation, 0)
			THEN coalesce(a.attname::text, '') ELSE '' END ORDER BY k.place)
		FROM pg_index i
		JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace
		JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_am m ON m.oid = x.relam
		CROSS JOIN unnest(i.indkey) WITH ORDINALITY AS k (number, place)
		LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number AND k.number > 0
		WHERE n.nspname = $1 AND c.relname = 'events' AND m.amname = 'btree' AND i.indpred IS NULL AND i.indisvalid AND k.place <= i.indnkeyatts
		GROUP BY i.indexrelid, i.indisunique, i.indimmediate`,
		t.store.unprepared([]any{t.store.schema})...)
	if err != nil {
		return nil, fmt.Errorf("list the indexes of events: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (i index, err error) {
		err = row.Scan(&i.unique, &i.columns)
		return i, err
	})
}
