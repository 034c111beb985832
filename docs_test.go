package watchdog_test

import (
	"encoding/xml"
	"errors"
	"io"
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

// TestLinks counts the packages that a host links with one of ours, the standard library included. If it fails, see
// with `go list -deps` what is new. If a new version of Go brought it, raise the figure. If only some hosts need it, as
// they do net/http, put what imports it behind an interface or into a package of its own, such as watchdoghttp.
func TestLinks(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("there is no go command:", err)
	}
	for pkg, most := range map[string]int{".": 150, "./stall": 162, "./converge": 151} { // with Go 1.26: 141, 153, 142
		t.Run(pkg, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", pkg).Output()
			require.NoError(t, err)
			linked := strings.Fields(string(out))
			require.NotContains(t, linked, "net/http")
			require.NotContains(t, linked, "net")
			require.LessOrEqual(t, len(linked), most, "the comment of this test says what to do; linked are %q", linked)
		})
	}
}

// TestLinksOneModule protects what the README says of the cost: the library links one package of others, and go.mod
// requires no more than that and two for tests, at the versions that the README names.
func TestLinksOneModule(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("there is no go command:", err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps",
		"-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./...").Output()
	require.NoError(t, err)
	var foreign []string
	for pkg := range strings.FieldsSeq(string(out)) {
		if pkg != "github.com/seed62658d38/watchdog" && !strings.HasPrefix(pkg, "github.com/seed62658d38/watchdog/") {
			foreign = append(foreign, pkg)
		}
	}
	require.Equal(t, []string{"github.com/benbjohnson/clock"}, foreign)

	mod, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	guide, err := os.ReadFile("docs/cost.md")
	require.NoError(t, err)
	required := regexp.MustCompile(`(?m)^\t(\S+) (v\S+)$`).FindAllStringSubmatch(string(mod), -1) // no indirect ones
	require.Len(t, required, 3)
	for _, module := range required {
		if !strings.Contains(string(guide), "`"+module[1]+"` "+module[2]) {
			t.Errorf("docs/cost.md does not say that go.mod requires %s %s", module[1], module[2])
		}
	}
}

// TestWords protects readers from a word with two meanings: the name of an exported type is nowhere the name of a
// field or a method, or of another package's type, that is about something else.
func TestWords(t *testing.T) {
	problems, err := doccheck.Words(os.DirFS("."), sameMeaning)
	require.NoError(t, err)
	for _, problem := range problems {
		t.Error(problem)
	}
}

// sameMeaning are words that stand for the same thing wherever they are, with what that is.
var sameMeaning = map[string]string{
	"Config":     "how a thing of the package is made",
	"Store":      "what keeps the data of its package",
	"Memory":     "a store in memory",
	"Watchdog":   "a guarded run; otelwatchdog's is one that is measured",
	"Keeper":     "session.Keeper is a watchdog.Keeper",
	"Attempt":    "one process's work at a run, and its number",
	"Hold":       "a stretch in which silence is expected, its key and its cap",
	"Budget":     "the limits of a run, and what there was of the one that was exceeded",
	"Grace":      "the time to end that is given before more is done",
	"Decision":   "what a package decided",
	"Stage":      "a stage of converge, and its name",
	"Result":     "what came of what was run",
	"Stalled":    "what got stuck: a command, sessions",
	"Signal":     "what is sent to a process, and what a run sends; each is the standard word",
	"Run":        "a guarded run; as a method, what the standard library names so",
	"Error":      "an error and its text",
	"Command":    "a program that is run: a guarded one, and a probe's with its arguments",
	"Calls":      "an account of calls, and the method that has it measured",
	"Lease":      "the word of a process that it lives, and its name in the rows of its runs",
	"Outcome":    "what came of a call",
	"State":      "what is kept of a thing, as JSON",
	"Step":       "a part of a workflow, of an agent's work, of a command's end; the method takes the next one",
	"Class":      "what kind of thing something is to what judges it: a host's event, an agent's tool",
	"Period":     "what begins again: a shared limit's stretch of time, a loop's round",
	"Advice":     "what a pure detector asks the host to do",
	"Rule":       "what is to hold, and was broken: a store's, a run's",
	"Refused":    "what was not let through: a call, a step of an agent",
	"Page":       "a page: of a list, and for a browser",
	"Outbox":     "where notices are until they are delivered, and the setting that a store has one",
	"Sweeper":    "what sweeps, and what a page asks it",
	"Escalation": "how far the end of a command is: the signal that was sent last, and what follows",
	"Pass":       "a pass of a sweeper, and the method that has it measured",

	"Guard":     "what guards the calls of agents that are written with an SDK",
	"Limits":    "what bounds: a call of a tool, a command in a file of settings",
	"Transport": "what carries the messages of a protocol, in the word of its library",
}

// elements reads an SVG and returns the text in each kind of element.
func elements(t *testing.T, picture string) map[string][]string {
	t.Helper()
	found, open := map[string][]string{}, []string(nil)
	decoder := xml.NewDecoder(strings.NewReader(picture))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return found
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			open = append(open, token.Name.Local)
			found[token.Name.Local] = append(found[token.Name.Local], "")
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			for _, name := range open {
				found[name][len(found[name])-1] += string(token)
			}
		}
	}
}

// TestPictures expects that the pictures of the documents load fast, are read aloud, and can be seen in the dark.
func TestPictures(t *testing.T) {
	names, err := filepath.Glob("docs/*.svg")
	require.NoError(t, err)
	require.Subset(t, names, []string{"docs/run.svg", "docs/hosts.svg", "docs/packages.svg"})
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			text := readText(t, name)
			require.LessOrEqual(t, len(text), 25<<10)
			found := elements(t, text)
			require.Len(t, found["title"], 1)
			require.NotEmpty(t, found["title"][0])
			require.Len(t, found["desc"], 1)
			require.NotEmpty(t, found["desc"][0])
			require.Contains(t, text, `role="img" aria-labelledby="t d"`)
			require.Contains(t, text, "@media (prefers-color-scheme: dark)")
			require.NotEmpty(t, found["text"], "labels are text")
			for _, none := range []string{"script", "image", "foreignObject", "use"} {
				require.Empty(t, found[none])
			}
			require.Equal(t, 1, strings.Count(text, "://"), "it loads nothing: only the name of the format")
		})
	}
}

// TestZero holds the table of what zero means against the comments of the fields, and wants each field that is a
// length, a time, a count or an amount to say it, or its type. Write the table with -update.
func TestZero(t *testing.T) {
	table, problems, err := doccheck.Zero(os.DirFS("."), []doccheck.Settings{
		{Package: ".", Types: []string{"Budget", "Config", "HoldLimit", "Run", "Spend", "Cancellation", "Amount"}},
		{Package: "idle", Types: []string{"Config"}},
		{Package: "bound", Types: []string{"Call"}},
		{Package: "loop", Types: []string{"Config", "Step"}},
		{Package: "stall", Types: []string{"Config", "Step", "Probe", "AlsoEnd", "Tail"}},
		{Package: "watchdoghttp", Types: []string{"Transport", "Meter", "Maximum"}},
		{Package: "sweep", Types: []string{"Config", "Alert", "ResumePolicy"}},
		{Package: "session", Types: []string{"KeeperConfig"}},
		{Package: "notify", Types: []string{"Config"}},
		{Package: "page", Types: []string{"Config"}},
		{Package: "converge", Types: []string{"Config", "Stage"}},
		{Package: "config", Types: []string{"Config", "Tick"}},
	})
	require.NoError(t, err)
	for _, problem := range problems {
		t.Error(problem)
	}
	const page, begin, end = "docs/zero.md", "<!-- fields -->\n", "<!-- end -->\n"
	before, rest, begun := strings.Cut(readText(t, page), begin)
	_, after, ended := strings.Cut(rest, end)
	require.True(t, begun && ended, "the page has the marks between which the table is written")
	want := before + begin + "| field | what it says of zero |\n|---|---|\n" + table + end + after
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o644))
	}
	require.Equal(t, want, readText(t, page), "run go test . -run TestZero -update, and read what it says now")
}
