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

// TableProblems says why an existing events table cannot be used in place. It returns nothing if the table can: it has
// the event columns, which accept our values, its others need no value, since our inserts set none, and IDs are unique,
// which makes an append idempotent.
func TableProblems(columns []EventColumn, indexes []EventIndex) (problems []string) {
	byName := map[string]EventColumn{}
	for _, c := range columns {
		byName[c.Name] = c
	}
	for _, name := range EventColumns {
		if c, exists := byName[name]; !exists {
			problems = append(problems, "column "+name+" is missing")
		} else if problem := c.problem(); problem != "" {
			problems = append(problems, "column "+name+" "+problem)
		}
	}
	for _, c := range columns {
		if !slices.Contains(EventColumns, c.Name) && c.NotNull && !c.HasDefault {
			problems = append(problems, "column "+c.Name+" is NOT NULL and has no default")
		}
	}
	isKey := func(i EventIndex) bool { return i.Unique && slices.Equal(i.Columns, []string{"id"}) }
	if _, exists := byName["id"]; exists && !slices.ContainsFunc(indexes, isKey) {
		problems = append(problems,
			"column id is not unique: make it the primary key, compared byte by byte and not deferrable")
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
