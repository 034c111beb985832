package storeflow_test

import (
	"slices"
	"testing"

	"github.com/seed62658d38/watchdog/internal/storeflow"
)

// TestKinds protects the tables that a version before made: a kind that was added has columns, which a later version of
// the schema adds.
func TestKinds(t *testing.T) {
	columns := map[string][]string{}
	for _, table := range storeflow.Tables {
		for _, column := range table.Columns {
			columns[table.Name] = append(columns[table.Name], column.Name)
		}
	}
	for _, kind := range storeflow.SpendKinds {
		for _, column := range [...][2]string{
			{"watchdog_spend", kind}, {"watchdog_slices", "granted_" + kind}, {"watchdog_slices", "returned_" + kind},
		} {
			if !slices.Contains(columns[column[0]], column[1]) {
				t.Errorf("there is no column %s in %s", column[1], column[0])
			}
		}
	}
}
