package storeflow_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/storeflow"
)

func eventColumns(more ...storeflow.EventColumn) (columns []storeflow.EventColumn) {
	for _, name := range storeflow.EventColumns {
		columns = append(columns, storeflow.EventColumn{Name: name})
	}
	return append(columns, more...)
}

var uniqueID = []storeflow.EventIndex{{Unique: true, Columns: []string{"id"}}}

func TestTableProblems(t *testing.T) {
	change := func(name string, change func(*storeflow.EventColumn)) []storeflow.EventColumn {
		columns := eventColumns()
		change(&columns[slices.Index(storeflow.EventColumns, name)])
		return columns
	}
	for name, test := range map[string]struct {
		columns []storeflow.EventColumn
		indexes []storeflow.EventIndex
		want    []string
	}{
		"a table of ours has none":              {eventColumns(), uniqueID, nil},
		"a column beyond ours that may be NULL": {eventColumns(storeflow.EventColumn{Name: "note"}), uniqueID, nil},
		"a column beyond ours with a default": {
			eventColumns(storeflow.EventColumn{Name: "n", NotNull: true, HasDefault: true}), uniqueID, nil,
		},
		"a column beyond ours that needs a value": {
			eventColumns(storeflow.EventColumn{Name: "n", NotNull: true}), uniqueID,
			[]string{"column n is NOT NULL and has no default"},
		},
		"a missing column": {eventColumns()[1:], uniqueID, []string{"column id is missing"}},
		"a generated column": {
			change("payload", func(c *storeflow.EventColumn) { c.Generated = true }), uniqueID,
			[]string{"column payload is generated"},
		},
		"a consensus ID that is NOT NULL": {
			change("consensus_id", func(c *storeflow.EventColumn) { c.NotNull = true }), uniqueID,
			[]string{"column consensus_id must allow NULL"},
		},
		"a type that changes values": {
			change("timestamp", func(c *storeflow.EventColumn) { c.Problem = "is a number" }), uniqueID,
			[]string{"column timestamp is a number"},
		},
		"IDs that are unique only with another column": {
			eventColumns(), []storeflow.EventIndex{{Unique: true, Columns: []string{"id", "event_type"}}},
			[]string{"column id is not unique: make it the primary key, compared byte by byte and not deferrable"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, storeflow.TableProblems(test.columns, test.indexes))
		})
	}
}

func TestMissingIndexes(t *testing.T) {
	names := func(existing ...storeflow.EventIndex) (names []string) {
		for _, i := range storeflow.MissingIndexes(existing) {
			names = append(names, i.Name)
		}
		return names
	}
	both := []string{"watchdog_events_aggregate", "watchdog_events_type"}
	require.Equal(t, both, names())
	require.Equal(t, both, names(storeflow.EventIndex{Columns: []string{"aggregate_type", "aggregate_id"}}),
		"one column is missing")
	require.Equal(t, both, names(storeflow.EventIndex{Columns: []string{"", "event_type"}}), "it begins with an expression")
	require.Equal(t, both[:1], names(storeflow.EventIndex{Columns: []string{"event_type", "timestamp"}}),
		"it has one column more")
	require.Equal(t, both[1:], names(storeflow.EventIndex{Columns: []string{"aggregate_type", "aggregate_id", "timestamp"}}))
}
