package tables

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"text/template"
)

// marked is a table with the comments around it.
var marked = regexp.MustCompile(`(?s)(<!-- table ([\w-]+)[^>]*-->\n)(.*?)(<!-- end of table -->)`)

// Write returns a document with its tables written anew: what stands between <!-- table NAME --> and
// <!-- end of table --> is what the template of that name says of the results. It fails where a table has no template
// or a template no table, and where one names a benchmark that has no result.
//
// Templates have these functions: ns, mem and allocs return a benchmark's time, bytes and allocations for each
// operation, of what it reports in a unit of its own; all are medians. Per is the ratio of two of them and more their
// difference; atMost and atLeast say whether one reaches what it should.
func Write(document, templates string, r Results) (string, error) {
	of := func(name, unit string) (Figure, error) {
		value, err := r.median(name, unit)
		return figureOf(value, unit), err
	}
	in := func(unit string) func(string) (Figure, error) {
		return func(name string) (Figure, error) { return of(name, unit) }
	}
	all, err := template.New("").Funcs(template.FuncMap{
		"of": of, "ns": in("ns/op"), "mem": in("B/op"), "allocs": in("allocs/op"),
		"per": per, "more": more, "atMost": atMost, "atLeast": atLeast,
	}).Parse(templates)
	if err != nil {
		return "", fmt.Errorf("read the templates: %w", err)
	}
	return writeEach(document, all)
}

// WriteAll is Write for several documents, each table of which stands in one of them.
func WriteAll(documents []string, templates string, r Results) ([]string, error) {
	const between = "\x00"
	written, err := Write(strings.Join(documents, between), templates, r)
	return strings.Split(written, between), err
}

// writeEach writes each table with its template.
func writeEach(document string, all *template.Template) (string, error) {
	var errs []error
	written := map[string]bool{"": true}
	document = marked.ReplaceAllStringFunc(document, func(text string) string {
		part := marked.FindStringSubmatch(text)
		var table strings.Builder
		if err := all.ExecuteTemplate(&table, part[2], nil); err != nil {
			errs = append(errs, fmt.Errorf("write table %s: %w", part[2], err))
		}
		written[part[2]] = true
		return part[1] + "\n" + strings.ReplaceAll(strings.TrimSpace(table.String()), "|  ", "| ") + "\n\n" + part[4]
	})
	for _, t := range all.Templates() {
		if !written[t.Name()] {
			errs = append(errs, fmt.Errorf("no table %s is marked in the document", t.Name()))
		}
	}
	return document, errors.Join(errs...)
}

// A Figure is a number with its unit: ns for any time, B, allocs, × for a ratio, or what the benchmark reports.
type Figure struct {
	Value float64
	Unit  string
}

// scales are the units of times, in nanoseconds.
var scales = []struct {
	unit string
	ns   float64
}{{"ns", 1}, {"µs", 1e3}, {"ms", 1e6}, {"s", 1e9}}

// figureOf is a value in a unit of go test, or one that a benchmark reports with more words: ns/op, ms-p99, median-ms.
func figureOf(value float64, unit string) Figure {
	words := strings.Split(unit, "-")
	for _, word := range words {
		word, _, _ = strings.Cut(word, "/")
		for _, s := range scales {
			if word == s.unit {
				return Figure{value * s.ns, "ns"}
			}
		}
	}
	base, per, _ := strings.Cut(words[0], "/")
	switch {
	case base == "x":
		return Figure{value, "×"}
	case per == "s":
		return Figure{value, words[0]}
	}
	return Figure{value, base}
}

// String shows the figure with three digits: 41.0 ns, 2.66 µs, 832 B, 1.14 ×.
func (f Figure) String() string { return f.show(digits) }

// limit shows a figure that was chosen: 150 ns, 1.5 ×.
func (f Figure) limit() string {
	return f.show(func(value float64) string { return strconv.FormatFloat(value, 'f', -1, 64) })
}

func (f Figure) show(number func(float64) string) string {
	value, unit := f.Value, f.Unit
	if unit == "ns" {
		for _, s := range scales {
			if math.Abs(f.Value) >= s.ns {
				value, unit = f.Value/s.ns, s.unit
			}
		}
	}
	return number(value) + " " + unit
}

// digits writes a number with three digits, fewer below one, or all that it has before the point, in groups.
func digits(value float64) string {
	decimals := 0
	for _, limit := range []float64{100, 10, 0.1} {
		if value != math.Trunc(value) && math.Abs(value) < limit {
			decimals++
		}
	}
	text := strconv.FormatFloat(value, 'f', decimals, 64)
	whole, rest, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if decimals > 0 {
		whole += "." + rest
	}
	return whole
}

// per is the ratio of two figures of one unit.
func per(one, other Figure) (Figure, error) {
	if one.Unit != other.Unit || other.Value == 0 {
		return Figure{}, fmt.Errorf("%v cannot be divided by %v", one, other)
	}
	return Figure{one.Value / other.Value, "×"}, nil
}

// more is by how much one figure exceeds another.
func more(one, other Figure) (Figure, error) {
	if one.Unit != other.Unit {
		return Figure{}, fmt.Errorf("%v cannot be taken from %v", other, one)
	}
	return Figure{one.Value - other.Value, one.Unit}, nil
}

// atMost says whether a figure is within a limit in its unit.
func atMost(limit float64, f Figure) string { return reach("at most ", limit, f, f.Value <= limit) }

// atLeast says whether a figure reaches a limit in its unit.
func atLeast(limit float64, f Figure) string { return reach("at least ", limit, f, f.Value >= limit) }

func reach(word string, limit float64, f Figure, met bool) string {
	return word + Figure{limit, f.Unit}.limit() + ": " + map[bool]string{true: "met", false: "**not met**"}[met]
}
