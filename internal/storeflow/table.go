package storeflow

import "slices"

// EventColumns are the columns of the events table. The table of a host may have others as well.
var EventColumns = []string{
	"id", "aggregate_type", "aggregate_id", "event_type", "payload", "timestamp", "consensus_id",
}

// A EventColumn describes one column of an existing events table.
type EventColumn struct {
	Name       string
	NotNull    bool
	HasDefault bool // the database sets it when an insert leaves it out
	Generated  bool // an insert cannot set it
	// Problem says why the column's type does not keep our values as they are. It is empty if the type does.
	Problem string
}

// An EventIndex describes one index of the events table. It covers all rows.
type EventIndex struct {
	Name   string
	Unique bool
	// Columns are the indexed columns. A name is empty for an expression, and for a column that the index does not compare
	// as the table does.
	Columns []string
}

// TableProblems says why an existing events table cannot be used in place. It returns nothing if the table can.
func TableProblems(columns []EventColumn, indexes []EventIndex) []string {
	return slices.Concat(eventColumnProblems(columns), otherColumnProblems(columns), keyProblems(columns, indexes))
}

// eventColumnProblems lists the event columns that are missing or do not accept our values.
func eventColumnProblems(columns []EventColumn) (problems []string) {
	for _, name := range EventColumns {
		at := slices.IndexFunc(columns, func(c EventColumn) bool { return c.Name == name })
		if at < 0 {
			problems = append(problems, "column "+name+" is missing")
			continue
		}
		if problem := columns[at].problem(); problem != "" {
			problems = append(problems, "column "+name+" "+problem)
		}
	}
	return problems
}

func (c EventColumn) problem() string {
	switch {
	case c.Generated:
		return "is generated"
	case c.Name == "consensus_id" && c.NotNull:
		return "must allow NULL"
	default:
		return c.Problem
	}
}

// otherColumnProblems lists the host's columns that need a value: our inserts set none.
func otherColumnProblems(columns []EventColumn) (problems []string) {
	for _, c := range columns {
		if !slices.Contains(EventColumns, c.Name) && c.NotNull && !c.HasDefault {
			problems = append(problems, "column "+c.Name+" is NOT NULL and has no default")
		}
	}
	return problems
}

// keyProblems checks that IDs are unique: this makes an append idempotent.
func keyProblems(columns []EventColumn, indexes []EventIndex) []string {
	exists := slices.ContainsFunc(columns, func(c EventColumn) bool { return c.Name == "id" })
	unique := slices.ContainsFunc(indexes, func(i EventIndex) bool {
		return i.Unique && slices.Equal(i.Columns, []string{"id"})
	})
	if exists && !unique {
		return []string{"column id is not unique: make it the primary key, compared byte by byte and not deferrable"}
	}
	return nil
}

// eventIndexes are the indexes that reading and counting events need.
var eventIndexes = []EventIndex{
	{Name: "watchdog_events_aggregate", Columns: []string{"aggregate_type", "aggregate_id", "timestamp"}},
	{Name: "watchdog_events_type", Columns: []string{"event_type"}},
}

// MissingIndexes returns the indexes to create: those that no existing index can replace, by beginning with the same
// columns.
func MissingIndexes(existing []EventIndex) []EventIndex {
	return slices.DeleteFunc(slices.Clone(eventIndexes), func(wanted EventIndex) bool {
		return slices.ContainsFunc(existing, func(i EventIndex) bool {
			n := len(wanted.Columns)
			return len(i.Columns) >= n && slices.Equal(i.Columns[:n], wanted.Columns)
		})
	})
}
