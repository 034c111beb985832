// Package term writes what a person reads on a terminal: text that nothing in it can take over, tables, marks, and the
// line that shows the time.
//
// It knows nothing of runs and sessions, and asks nothing.
package term

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/term"
)

// Plain is a text of a database or a file as a terminal may show it: what is not to be seen, such as escape sequences
// and marks for the direction of writing, is spelled out.
func Plain(text string) string {
	var b strings.Builder
	for i, r := range text {
		switch _, size := utf8.DecodeRuneInString(text[i:]); {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < utf8.RuneSelf:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// wide are the characters that take two columns of a terminal.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x1100, 0x115f, 1}, {0x231a, 0x231b, 1}, {0x2329, 0x232a, 1}, {0x23e9, 0x23ec, 1}, {0x25fd, 0x25fe, 1},
		{0x2614, 0x2615, 1}, {0x2648, 0x2653, 1}, {0x26a1, 0x26a1, 1}, {0x26aa, 0x26ab, 1}, {0x26bd, 0x26be, 1},
		{0x2705, 0x2705, 1}, {0x270a, 0x270b, 1}, {0x274c, 0x274c, 1}, {0x2753, 0x2755, 1}, {0x2795, 0x2797, 1},
		{0x2e80, 0x303e, 1}, {0x3041, 0x4dbf, 1}, {0x4e00, 0xa4cf, 1}, {0xa960, 0xa97f, 1}, {0xac00, 0xd7a3, 1},
		{0xf900, 0xfaff, 1}, {0xfe30, 0xfe6f, 1}, {0xff01, 0xff60, 1}, {0xffe0, 0xffe6, 1},
	},
	R32: []unicode.Range32{
		{0x16fe0, 0x18aff, 1}, {0x1b000, 0x1b2ff, 1}, {0x1f004, 0x1f004, 1}, {0x1f0cf, 0x1f0cf, 1}, {0x1f18e, 0x1f18e, 1},
		{0x1f191, 0x1f19a, 1}, {0x1f200, 0x1f64f, 1}, {0x1f680, 0x1f6ff, 1}, {0x1f7e0, 0x1f7eb, 1}, {0x1f900, 0x1faff, 1},
		{0x20000, 0x3fffd, 1},
	},
}

// Columns is how many columns of a terminal a plain text takes.
func Columns(text string) (n int) {
	for _, r := range text {
		n += columnsOf(r)
	}
	return n
}

func columnsOf(r rune) int {
	switch {
	case r < utf8.RuneSelf:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case unicode.Is(wide, r):
		return 2
	}
	return 1
}

// Cut is a plain text that takes at most so many columns.
func Cut(text string, room int) string {
	if Columns(text) <= room {
		return text
	}
	taken := 1 // of the dots
	for i, r := range text {
		if taken += columnsOf(r); taken > room {
			return text[:i] + "…"
		}
	}
	return text
}

// Wrap breaks a plain text into lines of at most so many columns. A word that is longer is cut.
func Wrap(text string, room int) (lines []string) {
	line, taken := "", 0
	for word := range strings.FieldsSeq(text) {
		word = Cut(word, room)
		switch n := Columns(word); {
		case line == "":
			line, taken = word, n
		case taken+1+n > room:
			lines = append(lines, line)
			line, taken = word, n
		default:
			line, taken = line+" "+word, taken+1+n
		}
	}
	return append(lines, line)
}

// A Table is lines of cells, the first of which are the titles.
type Table [][]string

// Print prints the columns aligned, those with no cell but the title left out. On a terminal each line is cut to its
// width.
func (t Table) Print(out *os.File) error {
	width := 0
	if term.IsTerminal(int(out.Fd())) {
		width, _, _ = term.GetSize(int(out.Fd())) // 0 cuts nothing
	}
	_, err := out.WriteString(t.Text(width))
	return err
}

// Text returns the table, cut to a width if that is not 0.
func (t Table) Text(width int) string {
	widths := t.widths()
	var text strings.Builder
	for _, row := range t {
		var line strings.Builder
		for i, cell := range row {
			if widths[i] > 0 {
				line.WriteString(cell + strings.Repeat(" ", widths[i]-Columns(cell)+2))
			}
		}
		shown := strings.TrimRight(line.String(), " ")
		if width > 0 {
			shown = Cut(shown, width)
		}
		text.WriteString(shown + "\n")
	}
	return text.String()
}

// widths makes the cells safe for a terminal, and returns the widths of the columns: 0 for one without a cell.
func (t Table) widths() []int {
	widths := make([]int, len(t[0]))
	for r, row := range t {
		for i, cell := range row {
			row[i] = Plain(cell)
			if r > 0 && row[i] != "" {
				widths[i] = max(widths[i], Columns(row[i]), Columns(t[0][i]))
			}
		}
	}
	return widths
}

// PrintJSON prints a value as indented JSON. What a terminal would not show as it is, such as a mark that turns the
// direction of writing, is escaped.
func PrintJSON(out io.Writer, value any) error {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := io.WriteString(out, escapeJSON(text.String()))
	return err
}

// escapeJSON escapes the characters that are not printable, which JSON has in strings alone.
func escapeJSON(text string) string {
	var escaped strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' || unicode.IsPrint(r):
			escaped.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&escaped, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&escaped, `\u%04x`, r)
		}
	}
	return escaped.String()
}
