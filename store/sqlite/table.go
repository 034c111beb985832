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
	columns, err = t.columns()
	return true, columns, err
}

// columns describes the columns of the events table. Names are in lower case, because SQLite ignores their case. It
// numbers a column by itself that is the whole primary key and an INTEGER.
func (t *transaction) columns() ([]storerows.Column, error) {
	return rowsOf(t, func(rows *sql.Rows) (c storerows.Column, err error) {
		var declared string
		err = rows.Scan(&c.Name, &declared, &c.NotNull, &c.HasDefault, &c.Generated)
		c.Problem = typeProblem(c.Name, declared)
		return c, err
	}, `
		SELECT lower(name), coalesce(type, ''), "notnull", coalesce(upper(dflt_value), 'NULL') <> 'NULL' OR hidden > 1
			OR pk = 1 AND max(pk) OVER () = 1 AND upper(type) = 'INTEGER', hidden > 1
		FROM pragma_table_xinfo('events', 'main')`)
}

// typeProblem says why a column's type changes our texts, by SQLite's rules for how a column converts its values. What
// is neither TEXT nor a number is NUMERIC: a column declared UUID changes the ID 0123 to 123. It keeps JSON and
// timestamps, which never look like numbers.
func typeProblem(name, declared string) string {
	has := func(word string) bool { return strings.Contains(strings.ToUpper(declared), word) }
	isText := !has("INT") && slices.ContainsFunc([]string{"CHAR", "CLOB", "TEXT"}, has)
	isOther := slices.ContainsFunc([]string{"INT", "BLOB", "REAL", "FLOA", "DOUB"}, has) //nolint:misspell // of DOUBLE
	if declared == "" || isText || !isOther && (name == "payload" || name == "timestamp") {
		return ""
	}
	return "is declared " + declared + ", which does not keep text as it is"
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
