package tables_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/bench/internal/tables"
	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/internal/golden"
)

func read(t *testing.T, name ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(name...))
	require.NoError(t, err)
	return string(text)
}

// TestWrite compares what is written from the output of two packages, one of them measured three times, with a golden
// file: medians, units, ratios, what is reached and what is not.
func TestWrite(t *testing.T) {
	document := filepath.Join("testdata", "document.md")
	output, templates := read(t, "testdata", "output.txt"), read(t, "testdata", "tables.tmpl")
	written, err := tables.Write(read(t, document), templates, tables.Parse(output))
	require.NoError(t, err)
	golden.Compare(t, document, written)
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

// bench is the folder of the measurements, root that of the repository.
const (
	bench = "../.."
	root  = "../../.."
)

var (
	benchmarkFunc = regexp.MustCompile(`(?m)^func Benchmark(\w+)\(`)
	benchCommand  = regexp.MustCompile(`(?m)^(?:cd (\S+) && )?(?:GOWORK=off )?(?:go test|\$\(measure\)) .*-bench '?([^\s']+)'?([^#\n]*)`)
	outsideTables = regexp.MustCompile("(?s)<!-- table .*?<!-- end of table -->|```.*?```")
	tableRow      = regexp.MustCompile(`(?m)^\|.*\n?`)
	figureInText  = regexp.MustCompile(`[\d.,]*\d (?:ns|µs|ms|s|B|MB/s|×|allocs)\b?`)
)

// benchmarks are the names of the benchmarks in a package's folder.
func benchmarks(t *testing.T, folder string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, found := range benchmarkFunc.FindAllStringSubmatch(string(text), -1) {
			names = append(names, found[1])
		}
	}
	return names
}

// TestReadme protects the tables from being edited by hand, and from results or templates that they do not show.
func TestReadme(t *testing.T) {
	documents := []string{read(t, bench, "README.md"), read(t, root, filepath.Join("docs", "cost.md"))}
	results := tables.Parse(read(t, bench, "results.txt"))
	written, err := tables.WriteAll(documents, read(t, bench, "tables.tmpl"), results)
	require.NoError(t, err)
	if !slices.Equal(documents, written) {
		t.Error("run `cd bench && GOWORK=off go run ./tables`; what a table says stands in bench/tables.tmpl")
	}
	require.Equal(t, results.String(), read(t, bench, "results.txt"))
}

// TestBenchmarksExist protects that what has results, and what a reader is told to run, is still there.
func TestBenchmarksExist(t *testing.T) {
	for _, name := range tables.Parse(read(t, bench, "results.txt")).Names() {
		folder, benchmark, _ := strings.Cut(name, ".")
		benchmark, _, _ = strings.Cut(benchmark, "/")
		require.Contains(t, benchmarks(t, folder), benchmark, "of package %s; delete its results", folder)
	}
	for _, text := range []string{read(t, bench, "README.md"), strings.ReplaceAll(read(t, root, "Makefile"), "$$", "$")} {
		for _, command := range benchCommand.FindAllStringSubmatch(strings.ReplaceAll(text, "\n\t", "\n"), -1) {
			var there []string
			for argument := range strings.FieldsSeq(command[3]) {
				if strings.HasPrefix(argument, ".") {
					there = append(there, benchmarks(t, filepath.Join(command[1], argument))...)
				}
			}
			for pattern := range strings.SplitSeq(firstOf(command[2]), "|") {
				if pattern == "." {
					continue
				}
				require.Regexp(t, "(?m)"+pattern, "Benchmark"+strings.Join(there, "\nBenchmark"), command[0])
			}
		}
	}
}

// firstOf is the part of a pattern that is of the benchmark itself.
func firstOf(pattern string) string {
	first, _, _ := strings.Cut(pattern, "/")
	return first
}

// TestProse protects that a figure which a table shows stands nowhere else in its section, where nobody would write it
// anew.
func TestProse(t *testing.T) {
	for section := range strings.SplitSeq(read(t, bench, "README.md"), "\n## ") {
		prose := tableRow.ReplaceAllString(outsideTables.ReplaceAllString(section, ""), "")
		prose = " " + strings.Join(strings.Fields(prose), " ")
		for _, table := range strings.Split(section, "<!-- table ")[1:] {
			table, _, _ = strings.Cut(table, "<!-- end of table -->")
			for _, row := range strings.Split(strings.TrimSpace(table), "\n")[4:] {
				cells := strings.Split(row, "|")
				for _, figure := range figureInText.FindAllString(strings.Join(cells[2:len(cells)-2], "|"), -1) {
					if strings.Contains(prose, " "+figure) {
						t.Errorf("%s is in the text of section %.30q, too", figure, section)
					}
				}
			}
		}
	}
}

var survivors = regexp.MustCompile(`(?s)\nProcesses alive a second later, .*?\n((?:\|.*?\n)+)`)

// TestSurvivors protects the table of what outlives a command from a shape that it lacks, and what the README of the
// project says of it.
func TestSurvivors(t *testing.T) {
	table := survivors.FindStringSubmatch(read(t, bench, "README.md"))
	require.NotNil(t, table, "run `cd bench && GOWORK=off go run ./survivors -write README.md`")
	rows := strings.Split(strings.TrimSpace(table[1]), "\n")[2:]
	var shown, shapes []string
	for _, row := range rows[:len(rows)-1] {
		shown = append(shown, strings.TrimSpace(strings.Split(row, "|")[1]))
	}
	for _, s := range escape.Scenarios() {
		shapes = append(shapes, s.Name)
	}
	require.Equal(t, shapes, shown)
	left := strings.Split(strings.NewReplacer("*", "", " ", "").Replace(rows[len(rows)-1]), "|")
	says := fmt.Sprintf("Of %d shapes of process trees `timeout -k` leaves some process of %s alive, "+
		"`exec.CommandContext` of %s, and this of %s", len(shapes), left[3], left[4], left[2])
	require.Contains(t, strings.Join(strings.Fields(read(t, root, "README.md")), " "), says)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
