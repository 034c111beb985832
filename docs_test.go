package watchdog_test

import (
	"cmp"
	"debug/elf"
	"debug/gosym"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/doccode"
	"github.com/seed62658d38/watchdog/internal/golden"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/notify"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/stall"
	"github.com/seed62658d38/watchdog/sweep"
)

// loadTree reads the checkout, once for all tests.
var loadTree = sync.OnceValues(func() (*doccode.Tree, error) { return doccode.Load(os.DirFS(".")) })

func sourceTree(t *testing.T) *doccode.Tree {
	t.Helper()
	if racing.Enabled {
		t.Skip("runs in the plain tests only: one goroutine reads files")
	}
	tree, err := loadTree()
	require.NoError(t, err)
	return tree
}

func TestEveryNameExists(t *testing.T) {
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output() // -trimpath leaves none in the test
	require.NoError(t, err)
	standard := filepath.Join(strings.TrimSpace(string(root)), "src")
	problems, err := sourceTree(t).Names(os.DirFS(standard))
	require.NoError(t, err)
	require.Empty(t, problems, strings.Join(problems, "\n"))
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
		for _, budget := range budgetLiteral.FindAllString(readText(t, name), -1) {
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

// dependencies are what `go list -deps` says.
func dependencies(t *testing.T, args ...string) []string {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("there is no go command:", err)
	}
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps"}, args...)...).Output()
	require.NoError(t, err)
	return strings.Fields(string(out))
}

// TestLinks counts the packages that a host links with one of ours, the standard library included. If it fails, see
// with `go list -deps` what is new. If a new version of Go brought it, raise the figure. If only some hosts need it, as
// they do net/http, put what imports it behind an interface or into a package of its own, such as watchdoghttp.
func TestLinks(t *testing.T) {
	for pkg, most := range map[string]int{".": 150, "./stall": 162, "./converge": 151} { // with Go 1.26: 141, 153, 142
		t.Run(pkg, func(t *testing.T) {
			linked := dependencies(t, pkg)
			require.NotContains(t, linked, "net/http")
			require.NotContains(t, linked, "net")
			require.LessOrEqual(t, len(linked), most, "the comment of this test says what to do; linked are %q", linked)
		})
	}
}

// TestLinksOneModule protects what the README says of the cost: the library links one package of others, and go.mod
// requires no more than that and two for tests, at the versions that the README names.
func TestLinksOneModule(t *testing.T) {
	var foreign []string
	for _, pkg := range dependencies(t, "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./...") {
		if pkg != "github.com/seed62658d38/watchdog" && !strings.HasPrefix(pkg, "github.com/seed62658d38/watchdog/") {
			foreign = append(foreign, pkg)
		}
	}
	require.Equal(t, []string{"github.com/benbjohnson/clock"}, foreign)

	guide := readText(t, "docs/cost.md")
	required := regexp.MustCompile(`(?m)^\t(\S+) (v\S+)$`).FindAllStringSubmatch(readText(t, "go.mod"), -1) // no indirect ones
	require.Len(t, required, 3)
	for _, module := range required {
		if !strings.Contains(guide, "`"+module[1]+"` "+module[2]) {
			t.Errorf("docs/cost.md does not say that go.mod requires %s %s", module[1], module[2])
		}
	}
}

// TestWords protects readers from a word with two meanings: the name of an exported type is nowhere the name of a
// field or a method, or of another package's type, that is about something else.
func TestWords(t *testing.T) {
	problems := sourceTree(t).Words(sameMeaning)
	require.Empty(t, problems, strings.Join(problems, "\n"))
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
	table, problems := sourceTree(t).Zero([]doccode.Settings{
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
	require.Empty(t, problems, strings.Join(problems, "\n"))
	const page, begin, end = "docs/zero.md", "<!-- fields -->\n", "<!-- end -->\n"
	before, rest, begun := strings.Cut(readText(t, page), begin)
	_, after, ended := strings.Cut(rest, end)
	require.True(t, begun && ended, "the page has the marks between which the table is written")
	want := before + begin + "| field | what it says of zero |\n|---|---|\n" + table + end + after
	golden.Compare(t, page, want) // read what it says now
}

const architecture = "docs/architecture.md"

func readText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
}

// placed is a name in quotes and, in parentheses after it, the link to the Go file that declares it.
var placed = regexp.MustCompile("`([\\w.]+)`\\s+\\(\\[[^\\]]+\\]\\(\\.\\./([^)]+\\.go)\\)\\)")

func TestArchitectureNames(t *testing.T) {
	pages, err := filepath.Glob("docs/architecture*.md")
	require.NoError(t, err)
	found := 0
	for _, page := range pages {
		for _, match := range placed.FindAllStringSubmatch(readText(t, page), -1) {
			found++
			name, file := match[1][strings.LastIndex(match[1], ".")+1:], match[2]
			declared := regexp.MustCompile(`(?m)^(?:func |func \(.*?\) |type |\t)` + name + `\b`)
			if !declared.MatchString(readText(t, file)) {
				t.Errorf("%s: %s is not in %s any more: correct the walk", page, match[1], file)
			}
		}
	}
	require.Greater(t, found, 30)
}

// packageComment stands above the package clause, and begins with more than a word.
var packageComment = regexp.MustCompile(`(?m)^// \w+ .+\n(?://.*\n)*package \w`)

// TestArchitecturePackages protects what the page says of packages: each says itself what it is for.
func TestArchitecturePackages(t *testing.T) {
	list, err := sourceTree(t).List()
	require.NoError(t, err)
	for _, name := range list.Packages() {
		folder := name
		if name == "watchdog" {
			folder = "."
		}
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		require.NoError(t, err)
		says := func(file string) bool { return packageComment.MatchString(readText(t, file)) }
		require.True(t, slices.ContainsFunc(files, says), "package %s has no comment that says what it is for", name)
	}
}

// TestArchitectureDrawing protects the states of a run: the page shows them as the comment of the code does.
func TestArchitectureDrawing(t *testing.T) {
	const file = "internal/machine/life.go"
	drawing := drawingAbove(t, file, "type Phase ")
	require.Contains(t, readText(t, architecture), "```text\n"+drawing+"```\n", "copy it from %s", file)
}

// drawingAbove is the indented part of the comment of a declaration.
func drawingAbove(t *testing.T, file, declaration string) (drawing string) {
	t.Helper()
	above, _, found := strings.Cut(readText(t, file), "\n"+declaration)
	require.True(t, found, "%s declares no %s", file, declaration)
	comment := above[strings.LastIndex(above, "\n\n")+1:] + "\n"
	for line := range strings.Lines(comment) {
		if indented, ok := strings.CutPrefix(line, "//\t"); ok {
			drawing += indented
		}
	}
	require.NotEmpty(t, drawing)
	return drawing
}

func TestImports(t *testing.T) {
	problems, err := sourceTree(t).Imports()
	require.NoError(t, err)
	require.Empty(t, problems, strings.Join(problems, "\n"))
}

func TestImportsPicture(t *testing.T) {
	list, err := sourceTree(t).List()
	require.NoError(t, err)
	golden.Compare(t, "docs/packages.svg", string(list.Picture()))
}

// TestDocumentedDefaults protects what the documents say of a default or a bound: it is the constant's. What is
// measured stands in tables that bench/tables writes, and the keys of a file are compared by package config.
func TestDocumentedDefaults(t *testing.T) {
	renewals := 3 * float64(time.Second) / float64(session.DefaultPromise) // of a lease, a second
	rows := 10 * float64(time.Second) / float64(session.DefaultThreshold)  // of a busy run, a second
	for _, c := range []struct {
		page, format string
		values       []any
	}{
		{"guide", "by at most %v seconds (`watchdog.Config.RecordTimeout`)", []any{watchdog.DefaultRecordTimeout.Seconds()}},
		{"operations", "(%v seconds, `watchdog.DefaultRecordTimeout`)", []any{watchdog.DefaultRecordTimeout.Seconds()}},
		{"operations", "every %v seconds (`session.KeeperConfig.Poll`)", []any{session.DefaultPoll.Seconds()}},
		{"operations", "at most %v seconds (`session.LockWait`)", []any{session.LockWait.Seconds()}},
		{"operations-alerts", "Cancels from other hosts arrive up to %v seconds later", []any{session.DefaultPoll.Seconds()}},
		{"operations-alerts", "At the defaults, %d sessions every %v minutes", []any{
			sweep.DefaultMaxCancellations, sweep.DefaultInterval.Minutes(),
		}},
		{"sessions", "(%v seconds; `KeeperConfig.Promise`, from %v second to %v minutes)", []any{
			session.DefaultPromise.Seconds(), session.ShortestPromise.Seconds(), session.LongestPromise.Minutes(),
		}},
		{"sessions", "`min_age` old (%v minutes;", []any{sweep.DefaultMinAge.Minutes()}},
		{"sessions", "the threshold (%v minutes)", []any{sweep.DefaultStalledThreshold.Minutes()}},
		{"cost", "three times in a promise (%v seconds)", []any{session.DefaultPromise.Seconds()}},
		{"cost", "1,000 hosts write %.0f rows a second", []any{1000 * renewals}},
		{"cost", "10,000,000 runs that are all busy are %.0f,000 rows", []any{10_000 * rows}},
		{"spend", "at %v by default", []any{watchdog.DefaultWarnAt}},
		{"configuration-reference", "is warned; %v where one is limited", []any{watchdog.DefaultWarnAt}},
		{"stall", "SIGTERM %v seconds later and SIGKILL after %v more", []any{
			stall.DefaultInterruptGrace.Seconds(), stall.DefaultTerminateGrace.Seconds(),
		}},
		{"stall", "`AlsoEnd.Timeout`, %v seconds by default", []any{stall.DefaultAlsoEndTimeout.Seconds()}},
		{"command", "SIGINT, %v seconds later SIGTERM and %v seconds later SIGKILL", []any{
			stall.DefaultInterruptGrace.Seconds(), stall.DefaultTerminateGrace.Seconds(),
		}},
		{"notifications", "After %v seconds the try has failed", []any{notify.DefaultTimeout.Seconds()}},
		{"notifications", "`keep_for`, %v days if nothing is set", []any{notify.DefaultKeepFor.Hours() / 24}},
	} {
		require.Contains(t, words(readText(t, "docs/"+c.page+".md")), fmt.Sprintf(c.format, c.values...), c.page)
	}
}

// TestDocumentedBounds protects what the documents say of a bound that no package exports: the line of code that sets it
// is there.
func TestDocumentedBounds(t *testing.T) {
	for _, c := range []struct{ page, says, file, line string }{
		{"command", "SIGINT within 250 ms", "cmd/watchdog/signals.go", "return 250 * time.Millisecond"},
		{"events", "after every sixteen", "internal/journal/checkpoint.go", "var CheckpointAfter = 16"},
		{"events", "None is above 32 KiB", "internal/fold/checkpoint.go", "const maxCheckpoint = 32 << 10"},
		{"events", "`survivor_pids` the first sixteen", "internal/record/payload.go", "const maxPIDs = 16"},
		{"events", "counts, at most 8 KiB", "loop/state.go", "const MaxState = 8 << 10"},
		{"events", "at most one a minute", "internal/looper/looper.go", "const pace = time.Minute"},
		{"loops", "more than 5 % of a file", "transcript/reader.go", "c.Unknown*20 > c.Lines"},
		{"loops", "more than 128 MiB", "transcript/document.go", "const maxValue = 128 << 20"},
		{"meter", "at most 45 s", "watchdoghttp/meter.go", "const DefaultWait = 45 * time.Second"},
		{"meter", "longer than 32 MiB", "cmd/watchdog/internal/modelproxy/proxy.go", "const longestBody = 32 << 20"},
		{"meter", "below 1,024", "watchdoghttp/internal/usage/body.go", "shortest = 1024"},
		{"notifications", "more than five minutes", "notify/sign.go", "const tolerance = 5 * time.Minute"},
		{"notifications", "24 to 64 random bytes", "notify/sign.go", "const leastSecret, mostSecret = 24, 64"},
		{
			"notifications", "tried again after 5 seconds, then 10, 20, up to an hour, less up to a fifth", "notify/round.go",
			"firstPause, longestPause = 5 * time.Second, time.Hour",
		},
		{"operations-alerts", "at least three leases and a third of all", "internal/verdict/session.go", "fleet = 3 partOfAll = 3"},
		{"sessions", "more than 64 such rows", "session/lease.go", "const MaxBehind = 64"},
		{"spend", "the last 1,024", "internal/ledger/admit.go", "const maxSettled = 1024"},
		{"stall", "when 64 KiB are waiting", "stall/pipe.go", "pipeSize = 64 << 10"},
		{"stall", "object of at most 64 KiB", "stall/internal/probe/probe.go", "MaxOutput = 64 << 10"},
		{"stall", "at most 32 short names", "stall/internal/probe/probe.go", "MaxFingerprints = 32"},
		{"stall", "has the first 100", "stall/watch.go", "const maxTrips = 100"},
	} {
		require.Contains(t, words(readText(t, "docs/"+c.page+".md")), c.says, c.page)
		require.Contains(t, words(readText(t, c.file)), c.line, "%s says: %s", c.page, c.says)
	}
}

// words has single spaces in place of all white space.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }

// TestDocumentedGo protects the oldest version of Go that the documents name.
func TestDocumentedGo(t *testing.T) {
	_, rest, found := strings.Cut(readText(t, "go.mod"), "\ngo 1.")
	require.True(t, found)
	minor, _, _ := strings.Cut(strings.Fields(rest)[0], ".")
	require.Contains(t, readText(t, "README.md"), "Go 1."+minor+" or later")
	require.Contains(t, readText(t, "docs/cost.md"), "Go to 1."+minor)
}

const (
	sizeProgram = "./testdata/size"
	sizeList    = "testdata/size/linked.txt"
	sizePage    = "docs/cost.md"
)

// smallGuards are the guards that a program may use alone, and how many bytes each may add to it at most. What the page
// says is less.
var smallGuards = []struct {
	name string
	most int64
}{
	{"idle", 150_000}, {"loop", 160_000}, {"watchdoghttp", 100_000}, {"watchdog", 1_500_000}, {"stall", 1_850_000},
	{"watchdog,stall", 2_200_000},
}

// TestSize builds one program without a guard and with each, and protects what the page says that they cost. The linker
// leaves out what is never called. A guard grows by a table that is made as the program starts, or by a concrete type
// of another package in a type that becomes an interface. `go build -ldflags=-dumpdep` says what keeps a function.
func TestSize(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil || !racing.Long && !golden.Updating() {
		t.Skip("make long: it builds all packages anew, and seven programs")
	}
	none, _ := built(t, "none")
	var list, table strings.Builder
	table.WriteString("\n| guard | adds | packages of this module |\n|---|---|---|\n")
	for _, guard := range smallGuards {
		size, packages := built(t, guard.name)
		require.LessOrEqual(t, size-none, guard.most, "%s: see the comment of this test", guard.name)
		fmt.Fprintf(&list, "%s:\n\t%s\n", guard.name, strings.Join(packages, "\n\t"))
		fmt.Fprintf(&table, "| `%s` | %.2f MB | %d |\n", guard.name, float64(size-none)/1e6, len(packages))
	}
	table.WriteString("\n")
	if golden.Updating() {
		require.NoError(t, os.WriteFile(sizeList, []byte(list.String()), 0o644))
		require.NoError(t, os.WriteFile(sizePage, []byte(sizeTable.ReplaceAllLiteralString(readText(t, sizePage),
			sizeBegin+table.String()+sizeEnd)), 0o644))
	}
	if strings.HasPrefix(runtime.Version(), "go1.26") { // another compiler makes other code
		require.Equal(t, list.String(), readText(t, sizeList), "go test . -run TestSize -update writes it")
		requireAlike(t, table.String(), readText(t, sizePage))
	}
}

// What stands before the table of the page and after it.
const (
	sizeBegin = "<!-- sizes -->\n"
	sizeEnd   = "<!-- end of sizes -->"
)

var (
	sizeTable = regexp.MustCompile("(?s)" + sizeBegin + ".*" + sizeEnd)
	sizeAdds  = regexp.MustCompile(`(\d+)\.(\d+) MB`)
)

// requireAlike compares the table that was measured with that of the page. Sizes may differ a little: a new version of
// a library, or a few lines, need no new table.
func requireAlike(t *testing.T, table, page string) {
	t.Helper()
	stated := sizeTable.FindString(page)
	require.NotEmpty(t, stated, "%s has no table of sizes", sizePage)
	measured, said := sizeAdds.FindAllString(table, -1), sizeAdds.FindAllString(stated, -1)
	require.Len(t, said, len(measured))
	for i := range measured {
		var now, then float64
		fmt.Sscan(measured[i], &now)
		fmt.Sscan(said[i], &then)
		require.InDelta(t, now, then, 0.01+now/20, "%s states another size: go test . -run TestSize -update", sizePage)
	}
	require.Equal(t, sizeAdds.ReplaceAllString(sizeBegin+table+sizeEnd, ""), sizeAdds.ReplaceAllString(stated, ""),
		"go test . -run TestSize -update writes it")
}

// The functions of this module, as package and name, and those that set the variables of a package.
var (
	ofModule = regexp.MustCompile(`^github\.com/seed62658d38/watchdog/?([^.]*)\.(.+)`)
	isInit   = regexp.MustCompile(`^(map\.)?init(\.|$)`)
)

// built returns the size of the program with the guard, stripped, and the packages of this module whose code is in it.
// One that is linked to set its variables, and does nothing, is none of them.
func built(t *testing.T, guard string) (size int64, packages []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), guard)
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-tags", guard, "-o", path,
		sizeProgram)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOAMD64=v1", "GOFLAGS=", "GOEXPERIMENT=")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	info, err := os.Stat(path)
	require.NoError(t, err)
	file, err := elf.Open(path)
	require.NoError(t, err)
	defer file.Close()
	lines, err := file.Section(".gopclntab").Data()
	require.NoError(t, err)
	symbols, err := gosym.NewTable(nil, gosym.NewLineTable(lines, file.Section(".text").Addr))
	require.NoError(t, err)
	for i := range symbols.Funcs {
		of := ofModule.FindStringSubmatch(symbols.Funcs[i].Name)
		if of != nil && !isInit.MatchString(of[2]) {
			packages = append(packages, cmp.Or(of[1], "watchdog"))
		}
	}
	slices.Sort(packages)
	return info.Size(), slices.Compact(packages)
}
