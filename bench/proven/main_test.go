package main

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childMark {
		os.Exit(beChild(os.Args[2:]))
	}
	_ = flag.Set("test.parallel", "16") // most wait
	os.Exit(m.Run())
}

// TestChecks checks that all is as expected here, too.
func TestChecks(t *testing.T) {
	for _, c := range checks() {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.expected, c.try())
		})
	}
}

// TestTable checks that what was not as expected can be seen, in a table and in the exit status.
func TestTable(t *testing.T) {
	says := func(what string) func(*trial) string { return func(*trial) string { return what } }
	var text strings.Builder
	require.False(t, printAll(&text, []check{{"a tree", "0 alive", says("0 alive")}, {"a pipe", "a|b", says("b|a")}}))
	head, table, _ := strings.Cut(text.String(), ":\n\n")
	require.Contains(t, head, ", go1.")
	require.Equal(t, `| what | expected | seen |
|---|---|---|
| a tree | 0 alive | 0 alive |
| a pipe | a\|b | **b\|a** |

1 of 2 as expected
`, table)
	require.True(t, printAll(&text, []check{{"a tree", "0 alive", says("0 alive")}}))
}
