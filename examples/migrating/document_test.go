package migrating_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mostLines is how many lines a swap may need.
const mostLines = 5

// guardFiles are the files of the guards, in the order of the document.
var guardFiles = []string{
	"ticker.go", "afterfunc.go", "polled.go", "roundtripper.go", "body.go", "processgroup_unix.go",
	"jobobject_windows.go", "statussweep.go",
}

// A swap is a file of a guard.
type swap struct {
	before string   // the code
	out    int      // lines of code that are not needed any more
	in     []string // lines of code that are new
}

func readSwap(t *testing.T, file string) swap {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	_, regions, found := strings.Cut(string(text), "//migrating:before\n")
	require.True(t, found, file)
	before, rest, found := strings.Cut(regions, "//migrating:after\n")
	require.True(t, found, file)
	after, _, found := strings.Cut(rest, "//migrating:end\n")
	require.True(t, found, file)
	out, in := difference(linesOfCode(before), linesOfCode(after))
	return swap{strings.TrimSpace(before), len(out), in}
}

var linterNote = regexp.MustCompile(` //nolint:.*`)

// linesOfCode are the lines but for indentation, comments and what is only brackets. The two hosts have one name.
func linesOfCode(region string) []string {
	var lines []string
	for line := range strings.Lines(region) {
		line = linterNote.ReplaceAllString(strings.TrimSpace(line), "")
		if strings.Trim(line, "(){}, ") != "" && !strings.HasPrefix(line, "//") {
			lines = append(lines, regexp.MustCompile(`^(func \w+?)(Before|After)\(`).ReplaceAllString(line, "$1("))
		}
	}
	return lines
}

// difference returns the lines of two texts that are not in their longest common subsequence, as diff does.
func difference(old, text []string) (out, in []string) {
	common := commonLengths(old, text)
	i, j := 0, 0
	for i < len(old) && j < len(text) {
		switch {
		case old[i] == text[j]:
			i, j = i+1, j+1
		case common[i+1][j] >= common[i][j+1]:
			out, i = append(out, old[i]), i+1
		default:
			in, j = append(in, text[j]), j+1
		}
	}
	return append(out, old[i:]...), append(in, text[j:]...)
}

// commonLengths returns the length of the longest common subsequence of all the ends of two texts.
func commonLengths(old, text []string) [][]int {
	common := make([][]int, len(old)+1)
	for i := range common {
		common[i] = make([]int, len(text)+1)
	}
	for i, a := range slices.Backward(old) {
		for j, b := range slices.Backward(text) {
			common[i][j] = max(common[i+1][j], common[i][j+1])
			if a == b {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	return common
}

func TestDifference(t *testing.T) {
	words := strings.Fields
	for _, c := range []struct{ old, text, out, in string }{
		{"a b c", "a b c", "", ""},
		{"a b c", "a c", "b", ""},
		{"a c", "a b c", "", "b"},
		{"a b c d", "a x c y", "b d", "x y"},
		{"", "a", "", "a"},
		{"b a b a", "a b", "b a", ""},
	} {
		out, in := difference(words(c.old), words(c.text))
		assert.ElementsMatch(t, words(c.out), out, "%+v", c)
		assert.ElementsMatch(t, words(c.in), in, "%+v", c)
	}
}

var labelled = regexp.MustCompile("(?s)<!-- (before|after) (\\S+) -->\n```go\n(.*?)\n```")

// pages are those of the document, in its order.
var pages = []string{
	"migrating.md", "migrating-silence.md", "migrating-http.md", "migrating-commands.md", "migrating-sweep.md",
}

// readDocument returns the pages, one after the other.
func readDocument(t *testing.T) string {
	t.Helper()
	docs := filepath.Join("..", "..", "docs")
	var document strings.Builder
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(docs, page))
		if os.IsNotExist(err) && page == pages[0] {
			t.Skip("not in a checkout of the repository:", err)
		}
		require.NoError(t, err)
		document.Write(text)
	}
	all, err := filepath.Glob(filepath.Join(docs, "migrating*.md"))
	require.NoError(t, err)
	require.Len(t, all, len(pages), "a page that no test reads")
	return document.String()
}

// TestDocument compares docs/migrating.md and its pages with the code: each host word for word, and the new lines.
func TestDocument(t *testing.T) {
	document := readDocument(t)
	blocks := labelled.FindAllStringSubmatch(document, -1)
	require.Len(t, blocks, 2*len(guardFiles))
	require.Equal(t, len(blocks), strings.Count(document, "```go\n"), "a block of Go without a label")
	for i, file := range guardFiles {
		t.Run(file, func(t *testing.T) {
			s, before, after := readSwap(t, file), blocks[2*i], blocks[2*i+1]
			require.Equal(t, []string{"before", file, "after", file}, []string{before[1], before[2], after[1], after[2]})
			require.Equal(t, s.before, before[3])
			require.Equal(t, strings.Join(s.in, "\n"), after[3])
			require.LessOrEqual(t, len(s.in), mostLines)
			require.NotEmpty(t, s.in)
			require.Contains(t, document, fmt.Sprintf("| [%s](../examples/migrating/%s) | −%d | +%d |", file, file, s.out, len(s.in)))
		})
	}
}
