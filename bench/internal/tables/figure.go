package tables

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

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
