package documents_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A readmeProgram is a program of a README that says what it prints.
type readmeProgram struct{ title, code, output string }

// late is how much later than the README says something may happen.
const late = 200 * time.Millisecond

const attempts = 10

// TestReadmePrograms is an integration test: it builds and runs each program of the README as a reader pastes it, in
// real time, and compares what it prints. A machine that stops for a while changes the times, so that each program has
// some attempts.
func TestReadmePrograms(t *testing.T) {
	root := checkout(t)
	var programs []readmeProgram
	for _, name := range []string{"README.md", "docs/guide.md"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		programs = append(programs, readmePrograms(string(text))...)
	}
	require.Len(t, programs, 2)
	require.Equal(t, "One guard", programs[0].title)
	require.Equal(t, "Ladders", programs[1].title)
	for _, p := range programs {
		binary := p.build(t, root) // before any of them runs, for the sake of the times
		t.Run(p.title, func(t *testing.T) {
			t.Parallel()
			var printed string
			for range attempts {
				out, err := exec.CommandContext(t.Context(), binary).Output()
				require.NoError(t, err)
				if printed = string(out); asDocumented(p.output, printed) {
					return
				}
			}
			require.Equal(t, p.output, printed)
		})
	}
}

var programAndOutput = regexp.MustCompile("(?s)```go\n(package main\n.*?)```\n([^#]*?)```text\n(.*?)```")

// readmePrograms returns the programs that are followed by their output, each with the heading of its section.
func readmePrograms(text string) []readmeProgram {
	var found []readmeProgram
	for section := range strings.SplitSeq(text, "\n## ") {
		title, _, _ := strings.Cut(section, "\n")
		for _, match := range programAndOutput.FindAllStringSubmatch(section, -1) {
			found = append(found, readmeProgram{title, match[1], match[3]})
		}
	}
	return found
}

func (p readmeProgram) build(t *testing.T, root string) (binary string) {
	t.Helper()
	dir := t.TempDir()
	file, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	require.NoError(t, os.WriteFile(file, []byte(p.code), 0o600))
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, file)
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoErrorf(t, err, "%s", out)
	return binary
}

var anyDuration = regexp.MustCompile(`\b[0-9.]+m?s\b`)

// asDocumented reports whether a program printed what the README says, with each duration at most that late. What is
// left of a limit is less then.
func asDocumented(want, got string) bool {
	wanted, found := anyDuration.FindAllString(want, -1), anyDuration.FindAllString(got, -1)
	if len(wanted) != len(found) || anyDuration.ReplaceAllString(want, "") != anyDuration.ReplaceAllString(got, "") {
		return false
	}
	for i := range wanted {
		expected, err1 := time.ParseDuration(wanted[i])
		actual, err2 := time.ParseDuration(found[i])
		if err1 != nil || err2 != nil || (actual-expected).Abs() > late {
			return false
		}
	}
	return true
}

func TestAsDocumented(t *testing.T) {
	for name, c := range map[string]struct {
		got  string
		want bool
	}{
		"the same":         {"0s call\n300ms retry\n", true},
		"a little later":   {"100ms call\n500ms retry\n", true},
		"much later":       {"0s call\n900ms retry\n", false},
		"something else":   {"0s call\n300ms unstuck\n", false},
		"something less":   {"0s call\n", false},
		"something before": {"1s\n0s call\n300ms retry\n", false},
	} {
		require.Equal(t, c.want, asDocumented("0s call\n300ms retry\n", c.got), name)
	}
}
