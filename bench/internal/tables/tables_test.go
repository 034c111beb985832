package tables_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/bench/internal/tables"
)

var update = flag.Bool("update", false, "write the golden files")

func read(t *testing.T, name ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(name...))
	require.NoError(t, err)
	return string(text)
}

// TestWrite compares what is written from the output of two packages, one of them measured three times, with a golden
// file: medians, units, ratios, what is reached and what is not.
func TestWrite(t *testing.T) {
	golden := filepath.Join("testdata", "document.md")
	output, templates := read(t, "testdata", "output.txt"), read(t, "testdata", "tables.tmpl")
	written, err := tables.Write(read(t, golden), templates, tables.Parse(output))
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(written), 0o600))
	}
	require.Equal(t, read(t, golden), written)
}

func TestWriteFails(t *testing.T) {
	results := tables.Parse("pkg: example.org/p\nBenchmarkA-2 1 5.0 ns/op\nBenchmarkB-2 1 7 B/op\n")
	for name, c := range map[string]struct{ document, template, says string }{
		"a benchmark that has no result": {
			"<!-- table a -->\n<!-- end of table -->", `{{define "a"}}{{ns "example.org/p.C"}}{{end}}`,
			"there is no result of benchmark example.org/p.C in ns/op",
		},
		"a unit that it does not report": {
			"<!-- table a -->\n<!-- end of table -->", `{{define "a"}}{{ns "example.org/p.B"}}{{end}}`,
			"there is no result of benchmark example.org/p.B in ns/op",
		},
		"a ratio of a time and a size": {
			"<!-- table a -->\n<!-- end of table -->",
			`{{define "a"}}{{per (ns "example.org/p.A") (mem "example.org/p.B")}}{{end}}`, "5 ns cannot be divided by 7 B",
		},
		"a table without a template": {"<!-- table a -->\n<!-- end of table -->", "", "a"},
		"a template without a table": {"", `{{define "a"}}x{{end}}`, "no table a is marked"},
		"a template that is none":    {"", `{{define "a"}}`, "read the templates"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tables.Write(c.document, c.template, results)
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestFigure(t *testing.T) {
	for want, f := range map[string]tables.Figure{
		"0 allocs": {Value: 0, Unit: "allocs"}, "0.50 ns": {Value: .5, Unit: "ns"}, "4.80 ns": {Value: 4.8, Unit: "ns"},
		"41 ns": {Value: 41, Unit: "ns"}, "18.6 ns": {Value: 18.62, Unit: "ns"}, "999 ns": {Value: 999, Unit: "ns"},
		"2.66 µs": {Value: 2657, Unit: "ns"}, "1.26 ms": {Value: 1258e3, Unit: "ns"}, "3 s": {Value: 3e9, Unit: "ns"},
		"1,272 B": {Value: 1272, Unit: "B"}, "1,000,000 goroutines": {Value: 1e6, Unit: "goroutines"},
		"0.080 ×": {Value: .0803, Unit: "×"}, "1.14 ×": {Value: 1.142, Unit: "×"}, "419 ×": {Value: 419.3, Unit: "×"},
		"-21.9 ns": {Value: -21.9, Unit: "ns"}, "-999 B": {Value: -999, Unit: "B"}, "-1,000 B": {Value: -1000, Unit: "B"},
	} {
		require.Equal(t, want, f.String())
	}
}

// TestReplace protects that a benchmark that is measured again keeps nothing of its old results, and every other all.
func TestReplace(t *testing.T) {
	const here, there = "goos: linux\npkg: here\n", "goos: linux\npkg: there\n"
	old := tables.Parse(here + "BenchmarkA-2 1 1 ns/op\nBenchmarkA-2 1 2 ns/op\nBenchmarkB/of=x-4-2 1 3 ns/op\nPASS\n" +
		there + "BenchmarkA 1 4 ns/op\n")
	require.Equal(t, []string{"here.A", "here.B/of=x-4", "there.A"}, old.Names())
	require.Equal(t, old, tables.Parse(old.String()))
	later := tables.Parse(here + "cpu: other\nBenchmarkA-8 1 5 ns/op\nok  \there\t1.0s\n")
	require.Equal(t, here+"BenchmarkB/of=x-4-2 1 3 ns/op\n"+there+"BenchmarkA 1 4 ns/op\n"+
		here+"cpu: other\nBenchmarkA-8 1 5 ns/op\n", old.Replace(later).String())
	require.Equal(t, strings.TrimSuffix(old.String(), "\n"), strings.TrimSuffix(old.Replace(tables.Parse("PASS\n")).String(), "\n"))
}
