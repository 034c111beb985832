package main

import (
	"os"
	"strings"

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
	widths := t.widths()
	var text strings.Builder
	for _, row := range t {
		var line strings.Builder
		for i, cell := range row {
			if widths[i] > 0 {
				line.WriteString(cell + strings.Repeat(" ", widths[i]-columns(cell)+2))
			}
		}
		shown := strings.TrimRight(line.String(), " ")
		if width > 0 {
			shown = cut(shown, width)
		}
		text.WriteString(shown + "\n")
	}
	return text.String()
}

// widths makes the cells safe for a terminal, and returns the widths of the columns: 0 for one without a cell.
func (t table) widths() []int {
	widths := make([]int, len(t[0]))
	for r, row := range t {
		for i, cell := range row {
			row[i] = plain(cell)
			if r > 0 && row[i] != "" {
				widths[i] = max(widths[i], columns(row[i]), columns(t[0][i]))
			}
		}
	}
	return widths
}
