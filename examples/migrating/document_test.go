package migrating_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// mostLines is how many lines a swap may need.
const mostLines = 7

// guardFiles are the files of the guards, in the order of the document.
var guardFiles = []string{
	"ticker.go", "afterfunc.go", "roundtripper.go", "processgroup_unix.go", "loopcheck.go", "statussweep.go",
}

// A swap is a file of a guard.
type swap struct {
	out int      // lines of code that are not needed any more
	in  []string // lines of code that are new
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
	return swap{len(out), in}
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

// difference returns the lines of each of two texts that the other does not have, or not as often.
func difference(old, text []string) (out, in []string) {
	missing := func(from, in []string) (lines []string) {
		left := slices.Clone(in)
		for _, line := range from {
			if i := slices.Index(left, line); i >= 0 {
				left = slices.Delete(left, i, i+1)
				continue
			}
			lines = append(lines, line)
		}
		return lines
	}
	return missing(old, text), missing(text, old)
}

func TestDifference(t *testing.T) {
	out, in := difference(strings.Fields("a b c b"), strings.Fields("a x c b y"))
	require.Equal(t, []string{"b"}, out)
	require.Equal(t, []string{"x", "y"}, in)
}

var labelled = regexp.MustCompile("(?s)<!-- after (\\S+) -->\n```go\n(.*?)\n```")

// readDocument returns docs/migrating.md.
func readDocument(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "migrating.md"))
	if os.IsNotExist(err) {
		t.Skip("not in a checkout of the repository:", err)
	}
	require.NoError(t, err)
	return string(text)
}

// TestDocument compares docs/migrating.md with the code: the new lines of each host, and how many went and came.
func TestDocument(t *testing.T) {
	document := readDocument(t)
	blocks := labelled.FindAllStringSubmatch(document, -1)
	require.Len(t, blocks, len(guardFiles))
	require.Equal(t, len(blocks), strings.Count(document, "```go\n"), "a block of Go without a label")
	for i, file := range guardFiles {
		t.Run(file, func(t *testing.T) {
			s := readSwap(t, file)
			require.Equal(t, file, blocks[i][1])
			require.Equal(t, strings.Join(s.in, "\n"), blocks[i][2])
			require.LessOrEqual(t, len(s.in), mostLines)
			require.NotEmpty(t, s.in)
			row := fmt.Sprintf("| [%s](../examples/migrating/%s) | −%d | +%d |", file, file, s.out, len(s.in))
			require.Contains(t, document, row)
		})
	}
}

func TestMain(m *testing.M) {
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise every child process ends a second late
	_ = flag.Set("test.parallel", "22")          // those that wait for commands
	goleak.VerifyTestMain(m)
}
