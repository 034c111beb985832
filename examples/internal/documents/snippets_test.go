package documents_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/doccode"
)

// surroundings is a folder of test files in which the snippets of the documents are run. A line in them
//
//	// snippet README.md: out := bound.Do(
//
// stands for the snippet of that document that has a line which begins so, word for word. A line after it
//
//	// with 5 * time.Minute as time.Second
//
// says what is replaced in it: a command runs in real time.
const surroundings = "testdata/snippets"

// onlyCompiled are the snippets that no test runs, named in the same way, with the reason.
// TestCodeInDocuments type-checks them.
var onlyCompiled = map[string]string{
	"docs/notifications.md: store, err := postgres.Open(": "it needs a server; the tests of store/postgres open outboxes",
}

// TestSnippets runs each block of Go in the README and the pages of docs in its surroundings: a snippet that compiles
// can hang all the same. A program with its output is run by TestReadmePrograms, and the pages about migrating show
// code of package migrating, whose tests run it and compare the pages with it.
func TestSnippets(t *testing.T) {
	root := checkout(t)
	dir, left := t.TempDir(), blocks(t, root)
	files, err := filepath.Glob(filepath.Join(surroundings, "*_test.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	line := []string{"test", "-vet=off", "-count=1"}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		whole := filepath.Join(dir, filepath.Base(file))
		require.NoError(t, os.WriteFile(whole, []byte(left.fill(t, file, string(text))), 0o600))
		line = append(line, whole)
	}
	for name := range onlyCompiled {
		left.take(t, name)
	}
	for _, s := range *left {
		t.Errorf("%s:%d: no test runs the snippet %q: give it surroundings in %s", s.File, s.Line, firstLine(s), surroundings)
	}
	run := exec.CommandContext(t.Context(), "go", line...) //nolint:gosec // the files are our own
	run.Dir = root
	out, err := run.CombinedOutput()
	require.NoErrorf(t, err, "%s", out)
}

// snippets are those that nothing has run yet.
type snippets []doccode.Snippet

// blocks returns the blocks of the documents that are marked as Go and run nowhere else.
func blocks(t *testing.T, root string) *snippets {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	all := &snippets{}
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		name, err := filepath.Rel(root, page)
		require.NoError(t, err)
		if name = filepath.ToSlash(name); strings.HasPrefix(name, migrating) {
			continue
		}
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		*all = append(*all, blocksOf(name, string(text))...)
	}
	return all
}

// blocksOf leaves out the programs that TestReadmePrograms runs, and what a line quotes.
func blocksOf(name, text string) (found []doccode.Snippet) {
	lines := strings.Split(text, "\n")
	programs := readmePrograms(text)
	for _, s := range doccode.Markdown(name, text) {
		isRun := slices.ContainsFunc(programs, func(p readmeProgram) bool { return strings.TrimSpace(p.code) == s.Code })
		if !isRun && s.Line > 1 && strings.HasPrefix(strings.TrimSpace(lines[s.Line-2]), "```go") {
			found = append(found, s)
		}
	}
	return found
}

func firstLine(s doccode.Snippet) string {
	first, _, _ := strings.Cut(s.Code, "\n")
	return first
}

// take returns the one snippet that has the name: its document, and what a line of it begins with.
func (all *snippets) take(t *testing.T, name string) doccode.Snippet {
	t.Helper()
	document, begin, _ := strings.Cut(name, ": ")
	var found []int
	for i, s := range *all {
		begins := func(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), begin) }
		if s.File == document && slices.ContainsFunc(strings.Split(s.Code, "\n"), begins) {
			found = append(found, i)
		}
	}
	require.Lenf(t, found, 1, "snippets of %s with a line that begins with %q, and that nothing else runs", document, begin)
	s := (*all)[found[0]]
	*all = slices.Delete(*all, found[0], found[0]+1)
	return s
}

var (
	place    = regexp.MustCompile(`^\s*// snippet (.*)$`)
	replaced = regexp.MustCompile(`^\s*// with (.*) as (.*)$`)
)

// fill puts snippets in their places. What fails in one is reported at its line of the document.
func (all *snippets) fill(t *testing.T, file, text string) string {
	t.Helper()
	var b strings.Builder
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		named := place.FindStringSubmatch(lines[i])
		if named == nil {
			b.WriteString(lines[i] + "\n")
			continue
		}
		s := all.take(t, named[1])
		for ; i+1 < len(lines) && replaced.MatchString(lines[i+1]); i++ {
			words := replaced.FindStringSubmatch(lines[i+1])
			require.Containsf(t, s.Code, words[1], "%s:%d", s.File, s.Line)
			s.Code = strings.ReplaceAll(s.Code, words[1], words[2])
		}
		fmt.Fprintf(&b, "//line %s:%d:1\n%s\n//line %s:%d:1\n", s.File, s.Line, s.Code, file, i+2)
	}
	return b.String()
}

// TestSnippetsAreTaken protects that a snippet without surroundings, or surroundings without a snippet, is found.
func TestSnippetsAreTaken(t *testing.T) {
	const page = "text `wd.Close()`\n```go\nfirst()\nmore()\n```\n```go\nsecond()\n```\n```sh\nthird\n```\n"
	found := snippets(blocksOf("page.md", page))
	require.Len(t, found, 2)
	text := found.fill(t, "around_test.go", "func a() {\n\t// snippet page.md: first(\n\t// with more() as less()\n}\n")
	require.Equal(t, "func a() {\n//line page.md:3:1\nfirst()\nless()\n//line around_test.go:4:1\n}\n\n", text)
	require.Len(t, found, 1, "nobody runs the second")
	require.Equal(t, "second()", firstLine(found[0]))
}
