package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrForeignTable is returned by [Open] and [New] for a database whose table named events is not one that this package can
// append to, or whose table named watchdog_sessions is another. The error names the columns that are missing or in the way, and nothing was written.
var ErrForeignTable = errors.New(
	"a table in it cannot hold what the watchdog writes: change that table, or keep events and sessions in a database of their own")

// textColumns are compared as text; payload and timestamp are only kept.
var (
	textColumns = []string{"id", "aggregate_type", "aggregate_id", "event_type", "consensus_id"}
	ourColumns  = append(slices.Clone(textColumns), "payload", "timestamp")
)

// A column is what SQLite knows of a column of the events table.
type column struct {
	name, declared string
	notNull        bool
	hasDefault     bool
	key            int // place in the primary key, from 1
	generated      bool
}

// checkTable says whether there is an events table, and fails if there is one that cannot be used in place.
func (t *transaction) checkTable() (exists bool, err error) {
	var kind string
	err = t.queryValue(&kind, `
		SELECT coalesce(max(type), '') FROM main.sqlite_master
		WHERE lower(name) = 'events' AND type IN ('table', 'view')`)
	if err != nil || kind == "" {
		return false, err
	}
	if kind != "table" {
		return false, fmt.Errorf("%w (events is a %s)", ErrForeignTable, kind)
	}
	columns, err := t.columns()
	if err != nil {
		return false, err
	}
	indexes, err := t.indexes()
	if err != nil {
		return false, err
	}
	flaws := slices.Concat(ourFlaws(columns), otherFlaws(columns), keyFlaws(columns, indexes))
	if len(flaws) > 0 {
		return false, fmt.Errorf("%w (%s)", ErrForeignTable, strings.Join(flaws, "; "))
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
	case c.affinity() == "TEXT" || c.declared == "" || c.affinity() == "NUMERIC" && !slices.Contains(textColumns, c.name):
		return ""
	default:
		return "is declared " + c.declared + ", which does not keep text as it is"
	}
}

// affinity is SQLite's rule for what a column makes of its values: in one declared INTEGER or UUID, and so NUMERIC, the
// ID 0123 becomes 123.
func (c column) affinity() string {
	for _, rule := range []struct{ word, affinity string }{
		{"INT", "INTEGER"}, {"CHAR", "TEXT"}, {"CLOB", "TEXT"}, {"TEXT", "TEXT"},
		{"BLOB", "BLOB"}, {"REAL", "REAL"}, {"FLOA", "REAL"}, {"DOUB", "REAL"}, //nolint:misspell // the beginning of DOUBLE
	} {
		if strings.Contains(strings.ToUpper(c.declared), rule.word) {
			return rule.affinity
		}
	}
	return "NUMERIC"
}

// otherFlaws says which columns beyond ours want a value that we do not have.
func otherFlaws(columns []column) (flaws []string) {
	for _, c := range columns {
		ours := slices.Contains(ourColumns, c.name)
		if !ours && c.notNull && !c.hasDefault && !c.generated && !isRowID(c, columns) {
			flaws = append(flaws, "column "+c.name+" is NOT NULL and has no default")
		}
	}
	return flaws
}

// isRowID says whether SQLite numbers the column by itself.
func isRowID(c column, columns []column) bool {
	alone := !slices.ContainsFunc(columns, func(other column) bool { return other.key > 1 })
	return c.key == 1 && alone && strings.EqualFold(c.declared, "INTEGER")
}

// keyFlaws says whether IDs are unique, which is what makes an append idempotent.
func keyFlaws(columns []column, indexes []index) []string {
	there := slices.ContainsFunc(columns, func(c column) bool { return c.name == "id" })
	unique := slices.ContainsFunc(indexes, func(i index) bool { return i.unique && slices.Equal(i.columns, []string{"id"}) })
	if there && !unique {
		return []string{"column id is not the primary key, nor unique with case counting"}
	}
	return nil
}

// columns lists the columns of the events table, with their names in lower case: SQLite's own are not told apart by it.
func (t *transaction) columns() (columns []column, err error) {
	rows, err := t.conn.QueryContext(context.Background(), `
		SELECT lower(name), coalesce(type, ''), "notnull", coalesce(upper(dflt_value), 'NULL') <> 'NULL', pk, hidden > 1
		FROM pragma_table_xinfo('events', 'main')`)
	if err != nil {
		return nil, fmt.Errorf("list the columns of events: %w", err)
	}
	defer func() { _ = rows.Close() }() // what went wrong is in rows.Err
	for rows.Next() {
		var c column
		if err := rows.Scan(&c.name, &c.declared, &c.notNull, &c.hasDefault, &c.key, &c.generated); err != nil {
			return nil, fmt.Errorf("list the columns of events: %w", err)
		}
		columns = append(columns, c)
	}
	return columns, rows.Err()
}

// An index of the events table that covers all rows.
type index struct {
	name    string
	unique  bool
	columns []string // in lower case; empty for an expression, and for a column that is not compared byte by byte
}

// leads says whether the index begins with the columns.
func (i index) leads(columns []string) bool {
	return len(i.columns) >= len(columns) && slices.Equal(i.columns[:len(columns)], columns)
}

func (t *transaction) indexes() (indexes []index, err error) {
	rows, err := t.conn.QueryContext(context.Background(), `
		SELECT l.name, l."unique", CASE x.coll WHEN 'BINARY' THEN lower(coalesce(x.name, '')) ELSE '' END
		FROM pragma_index_list('events', 'main') AS l, pragma_index_xinfo(l.name, 'main') AS x
		WHERE l.partial = 0 AND x."key" = 1 ORDER BY l.name, x.seqno`)
	if err != nil {
		return nil, fmt.Errorf("list the indexes of events: %w", err)
	}
	defer func() { _ = rows.Close() }() // what went wrong is in rows.Err
	for rows.Next() {
		var i index
		var column string
		if err := rows.Scan(&i.name, &i.unique, &column); err != nil {
			return nil, fmt.Errorf("list the indexes of events: %w", err)
		}
		if last := len(indexes) - 1; last < 0 || indexes[last].name != i.name {
			indexes = append(indexes, i)
		}
		last := &indexes[len(indexes)-1]
		last.columns = append(last.columns, column)
	}
	return indexes, rows.Err()
}
