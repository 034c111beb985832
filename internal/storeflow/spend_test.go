package storeflow_test

import (
	"slices"
	"testing"

	"github.com/seed62658d38/watchdog/internal/storeflow"
)

// TestKinds protects the tables that a version before made: a kind that was added has columns, by a step of its own.
func TestKinds(t *testing.T) {
	columns := map[string][]string{}
	for _, part := range storeflow.Parts {
		for _, column := range slices.Concat(part.Columns, part.Added) {
			columns[part.Table] = append(columns[part.Table], column.Name)
		}
	}
	for _, kind := range storeflow.SpendKinds {
		for _, column := range [...][2]string{
			{"watchdog_spend", kind}, {"watchdog_slices", "granted_" + kind}, {"watchdog_slices", "returned_" + kind},
		} {
			if !slices.Contains(columns[column[0]], column[1]) {
				t.Errorf("no step adds the column %s to %s", column[1], column[0])
			}
		}
	}
}
