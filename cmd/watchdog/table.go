package main

import (
	"os"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/term"
)

// A table is lines of cells, the first of which are the titles.
type table [][]string

// print prints the columns aligned, those with no cell but the title left out. On a terminal each line is cut to its
// width.
func (t table) print(out *os.File) error {
	width := 0
	if term.IsTerminal(int(out.Fd())) {
		width, _, _ = term.GetSize(int(out.Fd())) // 0 cuts nothing
	}
	_, err := out.WriteString(t.text(width))
	return err
}

// text returns the table, cut to a width if that is not 0.
func (t table) text(width int) string {
	widths := t.safe()
	var text strings.Builder
	for _, row := range t {
		var line strings.Builder
		for i, cell := range row {
			if widths[i] > 0 {
				line.WriteString(cell + strings.Repeat(" ", widths[i]-widthOf(cell)+2))
			}
		}
		text.WriteString(cut(strings.TrimRight(line.String(), " "), width) + "\n")
	}
	return text.String()
}

// safe makes the cells safe for a terminal, and returns the widths of the columns: 0 for one without a cell.
func (t table) safe() []int {
	widths := make([]int, len(t[0]))
	for r, row := range t {
		for i, cell := range row {
			row[i] = safe(cell)
			if r > 0 && row[i] != "" {
				widths[i] = max(widths[i], widthOf(row[i]), widthOf(t[0][i]))
			}
		}
	}
	return widths
}

// cut shortens a line to a width, if that is not 0.
func cut(line string, width int) string {
	if width == 0 || widthOf(line) <= width {
		return line
	}
	var short strings.Builder
	used := 0
	for _, r := range line {
		if used += runeWidth(r); used > width-1 {
			break
		}
		short.WriteRune(r)
	}
	return short.String() + "…"
}

// widthOf is how many columns of a terminal a text takes.
func widthOf(text string) (columns int) {
	for _, r := range text {
		columns += runeWidth(r)
	}
	return columns
}

// wide are the ranges of the characters that take two columns.
var wide = [][2]rune{
	{0x1100, 0x115f}, {0x2e80, 0x303e}, {0x3041, 0xa4cf}, {0xac00, 0xd7a3}, {0xf900, 0xfaff}, {0xfe30, 0xfe6f},
	{0xff00, 0xff60}, {0xffe0, 0xffe6}, {0x1f300, 0x1f64f}, {0x1f900, 0x1faff}, {0x20000, 0x3fffd},
}

func runeWidth(r rune) int {
	switch {
	case unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Me, r):
		return 0
	case slices.ContainsFunc(wide, func(of [2]rune) bool { return of[0] <= r && r <= of[1] }):
		return 2
	}
	return 1
}
