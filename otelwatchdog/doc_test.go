package otelwatchdog_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDocumented looks up every metric and attribute in the package comment.
func TestDocumented(t *testing.T) {
	source, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	tour := strings.Join(strings.Fields(string(source)), " ")
	golden, err := os.ReadFile("testdata/metrics.tsv")
	require.NoError(t, err)
	for line := range strings.Lines(string(golden)) {
		columns := strings.Split(line, "\t") // name, kind, unit, attributes
		require.Contains(t, tour, strings.Join(columns[:3], " "))
		for key := range strings.FieldsSeq(columns[3]) {
			require.Contains(t, tour, key)
		}
	}
	spans, err := os.ReadFile("testdata/spans.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(spans)) {
		require.Contains(t, tour, strings.Fields(line)[0])
	}
}
