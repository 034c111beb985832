package documents_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/doccode"
	"github.com/seed62658d38/watchdog/internal/racing"
)

func TestMain(m *testing.M) {
	if racing.Enabled {
		fmt.Println("skipped with the race detector: the go command builds and runs what is tested, without it")
		return
	}
	goleak.VerifyTestMain(m)
}

const module = "github.com/seed62658d38/watchdog"

// migrating is how the pages begin that show hosts of package migrating, which compiles them, and whose tests compare
// the two.
const migrating = "docs/migrating"

// packages are those that the snippets of documents use. Only a whole program has imports of its own.
var packages = map[string]string{
	"bound":        module + "/bound",
	"clock":        "github.com/benbjohnson/clock",
	"config":       module + "/config",
	"context":      "context",
	"converge":     module + "/converge",
	"errors":       "errors",
	"exec":         "os/exec",
	"fmt":          "fmt",
	"http":         "net/http",
	"idle":         module + "/idle",
	"io":           "io",
	"notify":       module + "/notify",
	"otelwatchdog": module + "/otelwatchdog",
	"postgres":     module + "/store/postgres",
	"redact":       module + "/redact",
	"replay":       module + "/replay",
	"session":      module + "/session",
	"sessiontest":  module + "/sessiontest",
	"slog":         "log/slog",
	"sqlite":       module + "/store/sqlite",
	"stall":        module + "/stall",
	"storetest":    module + "/storetest",
	"sweep":        module + "/sweep",
	"syscall":      "syscall",
	"synctest":     "testing/synctest",
	"testing":      "testing",
	"time":         "time",
	"watchdog":     module,
	"watchdoghttp": module + "/watchdoghttp",
}

// If a snippet needs a name of its host, declare it in testdata/host.go.
func TestCodeInDocuments(t *testing.T) {
	root := checkout(t)
	host, err := os.ReadFile("testdata/host.go")
	require.NoError(t, err)
	checker, err := doccode.New(root, packages, "testdata/host.go", string(host))
	require.NoError(t, err)

	snippets := readAll(t, root, ".md", doccode.Markdown)
	require.Greater(t, len(snippets), 8, "the README alone has more")
	comments := readAll(t, root, "doc.go", doccode.Comment)
	require.Greater(t, len(comments), 4, "that of the main package has two")
	require.NoError(t, checker.Check(t.Context(), append(snippets, comments...)))
}

// pkg.go.dev shows an example as a program: the function, and what it uses of its file. It does not show names from the
// other files of the test package.
func TestExamplesAreWhole(t *testing.T) {
	root := checkout(t)
	checker, err := doccode.New(root, nil, "host.go", "package host")
	require.NoError(t, err)
	programs := readAll(t, root, "_test.go", func(name, text string) []doccode.Snippet {
		programs, err := doccode.Examples(name, text)
		require.NoError(t, err)
		return programs
	})
	require.Greater(t, len(programs), 20)
	require.NoError(t, checker.Check(t.Context(), programs))
}

// checkout is the root of the repository, without which there are no documents to check.
func checkout(t *testing.T) string {
	t.Helper()
	root := filepath.Join("..", "..", "..")
	if _, err := os.Stat(filepath.Join(root, "go.work")); err != nil {
		t.Skip("not in a checkout of the repository:", err)
	}
	return root
}

// readAll cuts every document whose name ends like that.
func readAll(t *testing.T, root, end string, cut func(file, text string) []doccode.Snippet) []doccode.Snippet {
	t.Helper()
	var snippets []doccode.Snippet
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() && skipped(name) {
			return skip(err)
		}
		if !strings.HasSuffix(name, end) || strings.HasPrefix(name, migrating) {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		snippets = append(snippets, cut(name, string(text))...)
		return err
	})
	require.NoError(t, err)
	return snippets
}

func skip(err error) error {
	if err != nil {
		return err
	}
	return fs.SkipDir
}

// skipped reports whether a folder holds no documents: testdata, built tools, and what begins with a dot. Those of the
// adapters are checked in bench/agents, since go.work has none of their SDKs.
func skipped(dir string) bool {
	base := path.Base(dir)
	return slices.Contains([]string{"watchdogadk", "watchdogeino", "watchdogmcp"}, dir) || base == "testdata" || base == "bin" || dir != "." && strings.HasPrefix(base, ".")
}

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
