// Package tables writes the tables of bench/README.md from the output of go test -bench: medians, ratios, and whether
// what was to be reached is. A table is a template that names its benchmarks, so that no figure is written by hand.
//
// It runs no benchmark, and compares no two runs: benchstat does.
package tables

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// modulePath is what the names of packages begin with.
const modulePath = "github.com/seed62658d38/watchdog/"

// Results are lines of the output of go test -bench, of any number of packages and runs.
type Results struct{ lines []line }

// A line is what one run of one benchmark measured.
type line struct {
	config string // the lines that say where: goos, goarch, pkg, cpu
	name   string // its package and name, such as bench.Fired/with=watchdog
	text   string
}

// Parse reads output of go test -bench. It passes over what is no result.
func Parse(output string) Results {
	var r Results
	var config []string
	pkg, measured := "", false
	for text := range strings.Lines(output) {
		text = strings.TrimRight(text, "\r\n")
		key, value, isConfig := strings.Cut(text, ": ")
		switch fields := strings.Fields(text); {
		case strings.HasPrefix(text, "Benchmark") && len(fields) >= 4 && len(fields)%2 == 0:
			r.lines = append(r.lines, line{strings.Join(config, "\n"), pkg + "." + benchmarkName(fields[0]), text})
			measured = true
		case isConfig && !strings.ContainsAny(key, " \t"):
			if measured {
				config, measured = nil, false
			}
			if config = append(config, text); key == "pkg" {
				pkg = strings.TrimPrefix(value, modulePath)
			}
		}
	}
	return r
}

// benchmarkName is a name as its source has it, without what go test puts before and after it.
func benchmarkName(printed string) string {
	name := strings.TrimPrefix(printed, "Benchmark")
	if i := strings.LastIndexByte(name, '-'); i >= 0 {
		if _, err := strconv.Atoi(name[i+1:]); err == nil { // GOMAXPROCS
			return name[:i]
		}
	}
	return name
}

// Replace returns the results with those of other benchmarks in later ones, and the later ones.
func (r Results) Replace(later Results) Results {
	measured := map[string]bool{}
	for _, l := range later.lines {
		measured[l.name] = true
	}
	kept := slices.DeleteFunc(slices.Clone(r.lines), func(l line) bool { return measured[l.name] })
	return Results{append(kept, later.lines...)}
}

// String writes the results as Parse reads them.
func (r Results) String() string {
	var text strings.Builder
	config := ""
	for _, l := range r.lines {
		if l.config != config {
			config = l.config
			fmt.Fprintln(&text, config)
		}
		fmt.Fprintln(&text, l.text)
	}
	return text.String()
}

// Names are the packages and names of all benchmarks, each once.
func (r Results) Names() []string {
	var names []string
	for _, l := range r.lines {
		names = append(names, l.name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// median returns the median of what the runs of a benchmark measured in a unit.
func (r Results) median(name, unit string) (float64, error) {
	var values []float64
	for _, l := range r.lines {
		if l.name != name {
			continue
		}
		fields := strings.Fields(l.text)
		if i := slices.Index(fields, unit); i > 0 {
			value, err := strconv.ParseFloat(fields[i-1], 64)
			if err != nil {
				return 0, fmt.Errorf("benchmark %s: %w", name, err)
			}
			values = append(values, value)
		}
	}
	if len(values) == 0 {
		return 0, fmt.Errorf("there is no result of benchmark %s in %s", name, unit)
	}
	slices.Sort(values)
	half := len(values) / 2
	return (values[half] + values[(len(values)-1)/2]) / 2, nil
}
