package sqlite

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/seed62658d38/watchdog/internal/storerows"
)

// describeEvents reports whether there is a table of events, and describes its columns.
func (t *transaction) describeEvents() (exists bool, columns []storerows.Column, err error) {
	var kind string
	err = t.values(`
		SELECT coalesce(max(type), '') FROM main.sqlite_master
		WHERE lower(name) = 'events' AND type IN ('table', 'view')`, nil, &kind)
	switch {
	case err != nil || kind == "":
		return false, nil, err
	case kind != "table":
		return false, nil, fmt.Errorf("%w (events is a %s)", ErrForeignTable, kind)
	}
	found, err := t.columns()
	return true, describe(found), err
}

// A column is what SQLite knows of a column of the events table.
type column struct {
	name, declared string
	notNull        bool
	hasDefault     bool
	key            int // position in the primary key, from 1
	generated      bool
}

// columns lists the columns of the events table. Names are in lower case, because SQLite ignores their case.
func (t *transaction) columns() ([]column, error) {
	return rowsOf(t, func(rows *sql.Rows) (c column, err error) {
		err = rows.Scan(&c.name, &c.declared, &c.notNull, &c.hasDefault, &c.key, &c.generated)
		return c, err
	}, `
		SELECT lower(name), coalesce(type, ''), "notnull", coalesce(upper(dflt_value), 'NULL') <> 'NULL', pk, hidden > 1
		FROM pragma_table_xinfo('events', 'main')`)
}

func describe(columns []column) []storerows.Column {
	described := make([]storerows.Column, len(columns))
	for i, c := range columns {
		described[i] = storerows.Column{
			Name: c.name, NotNull: c.notNull, Generated: c.generated,
			HasDefault: c.hasDefault || c.generated || isRowID(c, columns), Problem: c.typeProblem(),
		}
	}
	return described
}

// isRowID reports whether SQLite numbers the column by itself.
func isRowID(c column, columns []column) bool {
	alone := !slices.ContainsFunc(columns, func(other column) bool { return other.key > 1 })
	return c.key == 1 && alone && strings.EqualFold(c.declared, "INTEGER")
}

// typeProblem says why the column's type changes our texts. NUMERIC keeps JSON and timestamps, which never look like
// numbers.
func (c column) typeProblem() string {
	onlyStored := c.name == "payload" || c.name == "timestamp"
	if c.affinity() == "TEXT" || c.declared == "" || c.affinity() == "NUMERIC" && onlyStored {
		return ""
	}
	return "is declared " + c.declared + ", which does not keep text as it is"
}

// affinity is SQLite's rule for how a column converts its values. A column declared UUID is NUMERIC, and changes the ID
// 0123 to 123.
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

// indexes lists the indexes of the events table that cover all rows. Column names are in lower case, and empty for
// expressions and for columns that the index does not compare byte by byte.
func (t *transaction) indexes() (indexes []storerows.Index, err error) {
	err = eachRow(t, func(rows *sql.Rows) error {
		var i storerows.Index
		var column string
		err := rows.Scan(&i.Name, &i.Unique, &column)
		if last := len(indexes) - 1; last < 0 || indexes[last].Name != i.Name {
			indexes = append(indexes, i)
		}
		last := &indexes[len(indexes)-1]
		last.Columns = append(last.Columns, column)
		return err
	}, `
		SELECT l.name, l."unique", CASE x.coll WHEN 'BINARY' THEN lower(coalesce(x.name, '')) ELSE '' END
		FROM pragma_index_list('events', 'main') AS l, pragma_index_xinfo(l.name, 'main') AS x
		WHERE l.partial = 0 AND x."key" = 1 ORDER BY l.name, x.seqno`)
	return indexes, err
}

// columnNames returns the names of a table's columns in lower case, and none if there is no such table.
func (t *transaction) columnNames(table string) ([]string, error) {
	return rowsOf(t, scanOne[string], `SELECT lower(name) FROM pragma_table_xinfo(?1, 'main')`, table)
}
