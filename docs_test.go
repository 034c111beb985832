package watchdog_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/doccheck"
	"github.com/seed62658d38/watchdog/internal/racing"
)

func TestEveryNameExists(t *testing.T) {
	if racing.Enabled {
		t.Skip("runs in the plain tests only: one goroutine reads files")
	}
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output() // -trimpath leaves none in the test
	require.NoError(t, err)
	standard := filepath.Join(strings.TrimSpace(string(root)), "src")
	problems, err := doccheck.Check(os.DirFS("."), os.DirFS(standard))
	require.NoError(t, err)
	for _, problem := range problems {
		t.Error(problem)
	}
}

func TestLayout(t *testing.T) {
	for _, name := range []string{
		"LICENSE", "README.md", "CHANGELOG.md", "Makefile", "go.work", ".golangci.yml", ".ci/run", "tools/go.mod",
		"doc.go", "watchdog.go", "budget.go", "events.go", "cancel.go", "stopreason.go", "internal/verdict", "internal/proctree", "storetest",
		"stall", "sweep", "converge", "session", "sessiontest", "redact/go.mod", "otelwatchdog/go.mod",
		"store/sqlite/go.mod", "store/postgres/go.mod", "config/go.mod", "examples/go.mod", "bench/go.mod", "bench/README.md",
		"docs/README.md", "docs/configuration.md", "docs/errors.md", "docs/events.md", "docs/stall.md", "docs/operations.md", "testdata",
		"docs/architecture.md", "docs/packages.txt", "docs/packages.svg", "CONTRIBUTING.md", "SECURITY.md",
	} {
		t.Run("there is "+name, func(t *testing.T) {
			_, err := os.Stat(name)
			require.NoError(t, err)
		})
	}
}

var budgetLiteral = regexp.MustCompile(`(?s)watchdog\.Budget\{(.*?)\n?\s*\}`)

// TestIdleTrap protects whoever copies a guard of silence from the wall clock of four hours that a Budget has by
// default: the documents name one beside each Idle.
func TestIdleTrap(t *testing.T) {
	found := 0
	for _, name := range []string{"README.md", "doc.go", "docs/errors.md", "docs/guide.md"} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, budget := range budgetLiteral.FindAllString(string(text), -1) {
			if strings.Contains(budget, "Idle:") {
				found++
				require.Contains(t, budget, "WallClock:", name)
			}
		}
	}
	require.NotZero(t, found)
}

// A reader takes a minute for wordsPerMinute, tables and code included, and mostMinutes for a page. MostPages and
// mostWords are of all pages but generated ones. A page that has to grow has something that is said elsewhere.
const (
	wordsPerMinute = 220
	mostMinutes    = 10
	mostPages      = 20
	mostWords      = 22_000
)

// generated are the pages that a command writes: one looks things up in them.
var generated = regexp.MustCompile(`^(configuration-reference|zero)\.md$`)

// indexRow is a row of the index: a page, how long it takes, and for whom it is.
var indexRow = regexp.MustCompile(`(?m)^- \[[^\]]+\]\(([^)]+)\), (\d+) min: `)

// TestIndex protects readers from a page without an end, and from one that they do not find: the index has a row for
// each page of docs, with the minutes that it takes.
func TestIndex(t *testing.T) {
	listed := map[string]int{}
	for _, row := range indexRow.FindAllStringSubmatch(readText(t, "docs/README.md"), -1) {
		require.NotContains(t, listed, row[1], "a page that is listed twice")
		minutes, err := strconv.Atoi(row[2])
		require.NoError(t, err)
		listed[row[1]] = minutes
	}
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	require.Len(t, listed, len(pages)-1, "all pages but the index, and nothing else")
	others, all := 0, 0
	for _, page := range pages {
		name, words := filepath.Base(page), len(strings.Fields(readText(t, page)))
		if !generated.MatchString(name) {
			others, all = others+1, all+words
			if words > mostMinutes*wordsPerMinute {
				t.Errorf("%s has %d words, and takes more than %d minutes: shorten it", page, words, mostMinutes)
			}
		}
		if name == "README.md" {
			continue
		}
		minutes, found := listed[name]
		require.True(t, found, "docs/README.md has no row for %s", name)
		require.InDelta(t, (words+wordsPerMinute-1)/wordsPerMinute, minutes, 1, "correct the minutes of %s", name)
	}
	require.LessOrEqual(t, others, mostPages, "make a section of a page")
	require.LessOrEqual(t, all, mostWords, "say once what two pages say")
}

// ofOurOwn are words that mean something of their own here.
var ofOurOwn = []string{"window", "layer", "hold", "ladder", "reserve", "attach", "promise", "lease", "scope", "slice"}

// TestGlossary protects a reader from a word that nothing explains: the glossary of the index has each, within a screen,
// and a page that uses one explains it, in bold, or links the glossary.
func TestGlossary(t *testing.T) {
	_, glossary, found := strings.Cut(readText(t, "docs/README.md"), "\n## Words\n")
	require.True(t, found)
	require.LessOrEqual(t, strings.Count(glossary, "\n"), 40)
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	for _, word := range ofOurOwn {
		require.Contains(t, glossary, "**"+word+"**")
		uses := regexp.MustCompile(`(?i)\b` + word + `s?\b`)
		for _, page := range pages {
			text := readText(t, page)
			explained := strings.Contains(text, "README.md#words") || strings.Contains(text, "**"+word)
			if uses.MatchString(text) && !generated.MatchString(filepath.Base(page)) && !explained {
				t.Errorf("%s uses %q, and neither explains it nor links the glossary", page, word)
			}
		}
	}
}

// TestReadmeSize protects whoever sees the README first, in a terminal, too.
func TestReadmeSize(t *testing.T) {
	const mostLines, mostColumns = 120, 120
	readme := readText(t, "README.md")
	require.LessOrEqual(t, strings.Count(readme, "\n"), mostLines)
	for line := range strings.Lines(readme) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), mostColumns, line)
	}
	require.NotRegexp(t, "</|<!--|<(?:br|hr|img|p|source)\\b", readme, "it has HTML")
}
