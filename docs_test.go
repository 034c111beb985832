package watchdog_test

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/golden"
)

func readText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
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
	for pkg, most := range map[string]int{".": 150, "./stall": 162, "./stall/converge": 151} { // with Go 1.26: 141, 153, 142
		t.Run(pkg, func(t *testing.T) {
			linked := dependencies(t, pkg)
			require.NotContains(t, linked, "net/http")
			require.NotContains(t, linked, "net")
			require.LessOrEqual(t, len(linked), most, "the comment of this test says what to do; linked are %q", linked)
		})
	}
}

// TestLinksNoOther protects what the documents say of the cost: no package of the library links one of another module,
// but for that which tests import, and go.mod requires three for tests, at the versions that the page names.
func TestLinksNoOther(t *testing.T) {
	const deps = "{{range .Deps}} {{.}}{{end}}"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.ImportPath}}"+deps, "./...").Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		linked := strings.Fields(line)
		for _, other := range linked[1:] {
			domain, _, _ := strings.Cut(other, "/")
			foreign := strings.Contains(domain, ".") && !strings.HasPrefix(other, "github.com/seed62658d38/watchdog")
			if foreign && !strings.HasSuffix(linked[0], "test") {
				t.Errorf("%s links %s", linked[0], other)
			}
		}
	}

	guide := readText(t, "docs/cost.md")
	required := regexp.MustCompile(`(?m)^\t(\S+) (v\S+)$`).FindAllStringSubmatch(readText(t, "go.mod"), -1) // no indirect ones
	require.Len(t, required, 3)
	for _, module := range required {
		if !strings.Contains(guide, "`"+module[1]+"` "+module[2]) {
			t.Errorf("docs/cost.md does not say that go.mod requires %s %s", module[1], module[2])
		}
	}
}

// notForHosts are the folders of packages that no host imports.
var notForHosts = []string{"internal", "pgtest", "testdata", "examples", "bench", "bin", "tools", "cmd"}

// exported returns what go/doc says of the packages that hosts import, by folder.
func exported(t *testing.T) map[string]*doc.Package {
	t.Helper()
	all := map[string]*doc.Package{}
	err := filepath.WalkDir(".", func(dir string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if slices.Contains(notForHosts, entry.Name()) || dir != "." && entry.Name()[0] == '.' {
			return fs.SkipDir
		}
		names, _ := filepath.Glob(filepath.Join(dir, "*.go"))
		files, sources := token.NewFileSet(), []*ast.File(nil)
		for _, name := range names {
			file, err := parser.ParseFile(files, name, nil, parser.ParseComments)
			if err != nil {
				return err
			}
			if !strings.HasSuffix(name, "_test.go") {
				sources = append(sources, file)
			}
		}
		if len(sources) > 0 {
			all[dir], err = doc.NewFromFiles(files, sources, dir)
		}
		return err
	})
	require.NoError(t, err)
	return all
}

// membersOf returns the exported fields and methods of a type. That of a method has the type of its first result.
func membersOf(of *doc.Type) (all []*ast.Field) {
	switch declared := of.Decl.Specs[0].(*ast.TypeSpec).Type.(type) {
	case *ast.StructType:
		all = declared.Fields.List
	case *ast.InterfaceType:
		for _, m := range declared.Methods.List {
			if signature, ok := m.Type.(*ast.FuncType); ok {
				all = append(all, &ast.Field{Names: m.Names, Type: firstResult(signature)})
			}
		}
	}
	for _, m := range of.Methods {
		all = append(all, &ast.Field{Names: []*ast.Ident{m.Decl.Name}, Type: firstResult(m.Decl.Type)})
	}
	return all
}

func firstResult(f *ast.FuncType) ast.Expr {
	if f.Results.NumFields() == 0 {
		return ast.NewIdent("")
	}
	return f.Results.List[0].Type
}

func isAlias(of *doc.Type) bool { return of.Decl.Specs[0].(*ast.TypeSpec).Assign.IsValid() }

// TestWords protects readers from a word with two meanings: the name of an exported type is nowhere the name of
// another package's type, or of a field or a method that neither holds nor returns one.
func TestWords(t *testing.T) {
	packages, declared := exported(t), map[string]string{} // the folder of the type with that name
	for dir, p := range packages {
		p.Types = slices.DeleteFunc(p.Types, isAlias) // the same types
		for _, of := range p.Types {
			if other, twice := declared[of.Name]; twice && sameMeaning[of.Name] == "" {
				t.Errorf("%s is a type in %s and in %s: rename one, or say what both mean", of.Name, dir, other)
			}
			declared[of.Name] = dir
		}
	}
	for dir, p := range packages {
		for _, of := range p.Types {
			for _, m := range membersOf(of) {
				held := strings.TrimLeft(types.ExprString(m.Type), "[]*")
				held = held[strings.LastIndexByte(held, '.')+1:]
				for _, name := range m.Names {
					in, found := declared[name.Name]
					if found && sameMeaning[name.Name] == "" && held != name.Name {
						t.Errorf("%s is a type in %s and something else in %s.%s: rename one", name, in, dir, of.Name)
					}
				}
			}
		}
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
	"Sweeper":    "what sweeps, and what a page asks it",
	"Escalation": "how far the end of a command is: the signal that was sent last, and what follows",
	"Pass":       "a pass of a sweeper, and the method that has it measured",

	"Guard":     "what guards the calls of agents that are written with an SDK",
	"Limits":    "what bounds: a call of a tool, a command in a file of settings",
	"Transport": "what carries the messages of a protocol, in the word of its library",
}

// settings are the types that a host fills in, by folder, in the order of the page.
var settings = []struct {
	folder string
	types  []string
}{
	{".", []string{"Budget", "Config", "HoldLimit", "Run", "Spend", "Cancellation", "Amount"}},
	{"idle", []string{"Config"}},
	{"bound", []string{"Call"}},
	{"loop", []string{"Config", "Step"}},
	{"stall", []string{"Config", "Step", "Probe", "AlsoEnd", "Tail"}},
	{"watchdoghttp", []string{"Transport"}},
	{"sweep", []string{"Config", "Alert", "ResumePolicy"}},
	{"session", []string{"KeeperConfig"}},
	{"page", []string{"Config"}},
	{"stall/converge", []string{"Config", "Stage"}},
	{"config", []string{"Config", "Tick"}},
}

var (
	// measures matches the types of lengths, times, counts and amounts.
	measures = regexp.MustCompile(`^(time\.(Duration|Time)|u?int\d*|float64|Money|Totals|map\[string\]int64|\[\]float64)$`)
	sentence = regexp.MustCompile(`[^.]+(?:\.\S[^.]*)*\.`)
	ofZero   = regexp.MustCompile(`(?i)\b(zero|nil)\b`)
	link     = regexp.MustCompile(`\[\*?([\w.]+)\](\.\w+)?`)
)

// TestZero protects a host from a field of which it is not known what zero means: the comment of each length, time,
// count and amount says it, or that of its type. The table of the page is what they say; -update writes it.
func TestZero(t *testing.T) {
	packages, table := exported(t), &strings.Builder{}
	for _, s := range settings {
		for _, of := range packages[s.folder].Types {
			listed := slices.Contains(s.types, of.Name)
			require.True(t, listed || !strings.HasSuffix(of.Name, "Config"), "%s.%s is not among the settings", s.folder, of.Name)
		}
		for _, name := range s.types {
			i := slices.IndexFunc(packages[s.folder].Types, func(of *doc.Type) bool { return of.Name == name })
			require.GreaterOrEqual(t, i, 0, "there is no %s.%s", s.folder, name)
			writeZero(t, table, packages[s.folder], packages[s.folder].Types[i])
		}
	}
	const page, begin, end = "docs/zero.md", "<!-- fields -->\n", "<!-- end -->\n"
	before, rest, begun := strings.Cut(readText(t, page), begin)
	_, after, ended := strings.Cut(rest, end)
	require.True(t, begun && ended, "the page has the marks between which the table is written")
	golden.Compare(t, page, before+begin+"| field | what it says of zero |\n|---|---|\n"+table.String()+end+after)
}

// writeZero writes a row for each comment of a struct. Fields that follow one another without one share the first's.
func writeZero(t *testing.T, table *strings.Builder, in *doc.Package, of *doc.Type) {
	t.Helper()
	row, said := []string(nil), ""
	end := func() {
		if len(row) > 0 {
			row[0] = in.Name + "." + of.Name + "." + row[0]
			if said == "" {
				said = saysOfZero(in, of.Doc)
			}
			require.NotEmpty(t, said, "the comment of %s does not say what zero means", row[0])
			fmt.Fprintf(table, "| `%s` | %s |\n", strings.Join(row, "`, `"), said)
		}
		row = nil
	}
	for _, field := range of.Decl.Specs[0].(*ast.TypeSpec).Type.(*ast.StructType).Fields.List {
		if comment := field.Doc.Text(); comment != "" {
			end()
			said = saysOfZero(in, comment)
		}
		for _, name := range field.Names {
			if measures.MatchString(types.ExprString(field.Type)) {
				row = append(row, name.Name)
			}
		}
	}
	end()
}

// saysOfZero returns the sentences of a comment that tell of zero, with code in place of its links.
func saysOfZero(in *doc.Package, comment string) string {
	var said []string
	for _, s := range sentence.FindAllString(strings.Join(strings.Fields(comment), " "), -1) {
		if ofZero.MatchString(s) {
			said = append(said, link.ReplaceAllStringFunc(strings.TrimSpace(s), func(linked string) string {
				name := strings.NewReplacer("[", "", "]", "", "*", "").Replace(linked)
				if ast.IsExported(name) {
					name = in.Name + "." + name
				}
				return "`" + name + "`"
			}))
		}
	}
	return strings.Join(said, " ")
}
