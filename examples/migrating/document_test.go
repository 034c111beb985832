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

	"github.com/seed62658d38/watchdog/examples/migrating"
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

// call is the same one each time.
func call(tool, input, outcome string) func(int) migrating.Call {
	return func(int) migrating.Call {
		return migrating.Call{Tool: tool, Input: []byte(input), Outcome: []byte(outcome)}
	}
}

// numbered has the number of the call for each N.
func numbered(tool, input, outcome string) func(int) migrating.Call {
	return func(i int) migrating.Call {
		number := strings.NewReplacer("N", fmt.Sprint(i+1))
		return call(tool, number.Replace(input), number.Replace(outcome))(i)
	}
}

// TestLoopCheck gives a hook a run of forty calls, one more each time, and says after which it stops; 0 is never.
func TestLoopCheck(t *testing.T) {
	read := call("view", `{"path":"a.go"}`, "package a")
	list := call("bash", `{"command":"ls"}`, "a.go")
	for _, c := range []struct {
		name          string
		calls         []func(int) migrating.Call // in turns
		before, after int
	}{
		{"the same call", []func(int) migrating.Call{read}, 10, 5},
		{"two calls in turns", []func(int) migrating.Call{read, list}, 0, 9},
		{"the same input as other JSON", []func(int) migrating.Call{
			call("view", `{"path":"a.go","limit":10}`, "package a"),
			call("view", `{"limit": 10, "path": "a.go"}`, "package a"),
		}, 0, 5},
		{"a failing test that takes other times", []func(int) migrating.Call{
			numbered("bash", `{"command":"go test"}`, "FAIL a 0.0Ns"),
		}, 0, 5},
		{"a wait", []func(int) migrating.Call{call("bash", `{"command":"sleep 1"}`, "")}, 10, 10},
		{"pages of a file", []func(int) migrating.Call{
			numbered("view", `{"path":"a.go","offset":N00}`, "line N00"),
		}, 0, 0},
		{"an edit and the same test", []func(int) migrating.Call{
			numbered("edit", `{"path":"a.go","new":"N"}`, "ok"), call("bash", `{"command":"go test"}`, "FAIL a"),
		}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.before, stopsAfter(migrating.LoopCheckBefore, c.calls), "before")
			require.Equal(t, c.after, stopsAfter(migrating.LoopCheckAfter, c.calls), "after")
			row := fmt.Sprintf("\n| %s | %d | %d |\n", c.name, c.before, c.after)
			require.Contains(t, readDocument(t), strings.ReplaceAll(row, " 0 ", " never "))
		})
	}
}

func stopsAfter(hook func([]migrating.Call) bool, turns []func(int) migrating.Call) int {
	var calls []migrating.Call
	for i := range 40 {
		calls = append(calls, turns[i%len(turns)](i))
		if hook(calls) {
			return len(calls)
		}
	}
	return 0
}
