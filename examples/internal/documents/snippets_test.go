// Package documents_test has the Go of the README and of the guide, so that it is compiled and run: a snippet that
// compiles can hang all the same.
package documents_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/racing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const root = "../../.."

var (
	blockOfGo = regexp.MustCompile("(?sm)^```go\n(.*?)^```$")
	// outputOf matches a whole program, and after it what it prints.
	outputOf = regexp.MustCompile("(?s)```go\n(package main\n.*?)```\n[^#]*?```text\n(.*?)```")
	indents  = regexp.MustCompile(`(?m)^\s+`)
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
}

// TestSnippets expects each block of Go line by line in a test of this package. A block that is new or different has to
// be written there, too.
func TestSnippets(t *testing.T) {
	here, found := "\n"+indents.ReplaceAllString(read(t, "guide_test.go"), ""), 0
	for _, page := range []string{"README.md", "docs/guide.md"} {
		for _, block := range blockOfGo.FindAllStringSubmatch(read(t, filepath.Join(root, page)), -1) {
			if !strings.HasPrefix(block[1], "package main\n") {
				found++
				require.Contains(t, here, "\n"+indents.ReplaceAllString(block[1], ""), "%s: guide_test.go does not run it", page)
			}
		}
	}
	require.Greater(t, found, 5)
}

// bubble runs a program on fake time, so that it prints the same each time and at once.
const bubble = `package main

import (
	"testing"
	"testing/synctest"
)

func TestProgram(t *testing.T) { synctest.Test(t, func(*testing.T) { main() }) }
`

// TestPrograms builds each program as a reader pastes it, runs it, and compares what it prints.
func TestPrograms(t *testing.T) {
	if racing.Enabled {
		t.Skip("the go command builds and runs what is tested, without the race detector")
	}
	found := 0
	for _, page := range []string{"README.md", "docs/guide.md"} {
		for _, program := range outputOf.FindAllStringSubmatch(read(t, filepath.Join(root, page)), -1) {
			found++
			dir := t.TempDir()
			main, test, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "main_test.go"), filepath.Join(dir, "program")
			require.NoError(t, os.WriteFile(main, []byte(program[1]), 0o600))
			require.NoError(t, os.WriteFile(test, []byte(bubble), 0o600))
			out, err := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-c", "-o", binary, main, test).CombinedOutput()
			require.NoError(t, err, "%s: %s", page, out)
			out, err = exec.CommandContext(t.Context(), binary).Output() // its log is on stderr
			require.NoError(t, err, "%s: %s", page, out)
			require.Equal(t, program[2], strings.TrimSuffix(string(out), "PASS\n"), page)
		}
	}
	require.Equal(t, 2, found)
}
