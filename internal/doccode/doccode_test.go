package doccode_test

import (
	"encoding/xml"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/doccode"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMarkdown(t *testing.T) {
	const text = "Call `fmt.Println(\"a\")`, not `fmt.Println`, `kill(-pid)` or `a b`.\n" +
		"```go\nx := 1\n\nprint(x)\n```\n" +
		"```sh\ngo `fmt.Print()`\n```\n" +
		"| `http.Client{}` | `Client` |\n"
	require.Equal(t, []doccode.Snippet{
		{File: "a.md", Line: 1, Code: `fmt.Println("a")`},
		{File: "a.md", Line: 3, Code: "x := 1\n\nprint(x)"},
		{File: "a.md", Line: 10, Code: "_ = http.Client{}"},
	}, doccode.Markdown("a.md", text))
}

func TestComment(t *testing.T) {
	const text = "// Package a is:\n//\n" +
		"//\tx := 1\n//\n//\tprint(x)\n//\n" +
		"// and\n//\ty := 2\n" +
		"// but not:\n//\ta  b\n" +
		"package a\n"
	require.Equal(t, []doccode.Snippet{
		{File: "doc.go", Line: 3, Code: "x := 1\n\nprint(x)"},
		{File: "doc.go", Line: 8, Code: "y := 2"},
	}, doccode.Comment("doc.go", text))
}

func newChecker(t *testing.T) *doccode.Checker {
	t.Helper()
	const host = "package host\n\nimport \"io\"\n\nvar out io.Writer\n"
	checker, err := doccode.New(".", map[string]string{"fmt": "fmt", "url": "net/url"}, "host.go", host)
	require.NoError(t, err)
	return checker
}

func TestCheckAccepts(t *testing.T) {
	for sentence, code := range map[string]string{
		"statements that use the host and a package": "n, err := fmt.Fprintln(out)\nif err != nil {\n\treturn err\n}",
		"declarations": "func show() { fmt.Fprintln(out) }",
		"a program":    "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println() }",
	} {
		t.Run(sentence, func(t *testing.T) {
			require.NoError(t, newChecker(t).Check(t.Context(), []doccode.Snippet{{File: "docs/a.md", Line: 3, Code: code}}))
		})
	}
}

func TestCheckRejects(t *testing.T) {
	const program = "package main\n\n"
	for sentence, test := range map[string]struct{ code, want string }{
		"a function that does not exist":    {"x := 1\nfmt.Printn(x)", "docs/a.md:4:5: undefined: fmt.Printn"},
		"a variable that nobody declares":   {"fmt.Println(nobody)", "docs/a.md:3:13: undefined: nobody"},
		"a field of the wrong type":         {"\n_ = url.URL{Host: 1}", "docs/a.md:4:19: cannot use 1"},
		"an unused variable further inside": {"if true {\n\tx := 1\n}", "docs/a.md:4:2: declared and not used: x"},
		"what is not Go":                    {"x := := 1", "docs/a.md:3:6: expected operand, found ':='"},
		"a program that uses the host":      {program + "func main() { _ = out }", "docs/a.md:5:19: undefined: out"},
		"a program with an unused import":   {program + "import \"fmt\"\n\nfunc main() {}", "docs/a.md:5:8: \"fmt\""},
		"a program without a main":          {program, "docs/a.md:3:9: a program without a func main"},
		"a package that does not exist":     {program + "import \"no/where\"\n\nfunc main() {}", "no/where is not in std"},
	} {
		t.Run(sentence, func(t *testing.T) {
			err := newChecker(t).Check(t.Context(), []doccode.Snippet{{File: "docs/a.md", Line: 3, Code: test.code}})
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestCheckReportsEverySnippet(t *testing.T) {
	err := newChecker(t).Check(t.Context(), []doccode.Snippet{
		{File: "a.md", Line: 1, Code: "fmt.A()\nfmt.B()"},
		{File: "a.md", Line: 5, Code: "}"},
		{File: "b.md", Line: 1, Code: "fmt.C()"},
	})
	require.ErrorContains(t, err, "a.md:1:5: undefined: fmt.A")
	require.ErrorContains(t, err, "a.md:2:5: undefined: fmt.B")
	require.ErrorContains(t, err, "a.md:6:1: expected declaration")
	require.ErrorContains(t, err, "b.md:1:5: undefined: fmt.C")
}

const (
	listFile = "docs/packages.txt"
	module   = "example.com/guard"
)

const list = `
# The packages of a guard.
[Programs]
tool: db guard
  idle # and this

[Stores] left
db: guard   # a module of its own
[Tools] right
idle: guard

[Guard]
guard: internal/rule
[Inside]
internal/rule: internal/rule/half
internal/rule/half:
`

// guard is a tree whose imports are those of its list.
func guard() fstest.MapFS {
	tree := fstest.MapFS{
		"go.work":                 {Data: []byte("go 1.25\n\nuse (\n\t. // the root\n\t./db\n)\nuse ./tool\n\nreplace (\n\texample.com/old => ./old\n)\n")},
		"go.mod":                  {Data: []byte("// The root.\nmodule " + module + "\n\ngo 1.25\n")},
		"db/go.mod":               {Data: []byte("module " + module + "/db\n")},
		"tool/go.mod":             {Data: []byte("module " + module + "/tool\n")},
		"elsewhere/go.mod":        {Data: []byte("module " + module + "/elsewhere\n")},
		listFile:                  {Data: []byte(list)},
		"guard.go":                source("guard", "internal/rule"),
		"tool/main.go":            source("main", "db", ""),
		"tool/main_windows.go":    source("main", "idle"),
		"db/db.go":                source("db", ""),
		"idle/idle.go":            source("idle", ""),
		"internal/rule/rule.go":   source("rule", "internal/rule/half"),
		"internal/rule/half/h.go": source("half"),
		"guard_test.go":           source("guard_test", "idle", "tool"),
		"elsewhere/elsewhere.go":  source("elsewhere", "idle"),
		"testdata/data.go":        source("data", "idle"),
		"_old/old.go":             source("old", "idle"),
		".git/x.go":               source("x", "idle"),
	}
	return tree
}

// source is a file of a package that imports others.
func source(name string, imports ...string) *fstest.MapFile {
	text := "package " + name + "\n\nimport \"fmt\"\nimport \"example.com/guardian\"\n"
	for _, path := range imports {
		text += "import \"" + strings.TrimSuffix(module+"/"+path, "/") + "\"\n"
	}
	return &fstest.MapFile{Data: []byte(text + "\nvar _ = fmt.Sprint\n")}
}

func TestTree(t *testing.T) {
	problems, err := load(t, guard()).Imports()
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestMissing(t *testing.T) {
	for sentence, test := range map[string]struct {
		file    string
		imports []string
		want    []string
	}{
		"an import that the line does not name": {"tool/more.go", []string{"internal/rule"}, []string{
			"tool/more.go:5: tool may not import internal/rule: do without, or add it to line 4 of docs/packages.txt and run make golden",
		}},
		"an import of what stands above": {"internal/rule/half/up.go", []string{"idle"}, []string{
			"internal/rule/half/up.go:5: internal/rule/half may not import idle, which stands above it in docs/packages.txt: " +
				"move what both need into a package below both",
		}},
		"an import of a package that does not exist": {"internal/rule/up.go", []string{"elsewhere/more"}, []string{
			"internal/rule/up.go:5: internal/rule imports elsewhere/more, which does not exist",
		}},
		"an import of what stands above, without a circle": {"idle/more.go", []string{"db"}, []string{
			"idle/more.go:5: idle may not import db, which stands above it in docs/packages.txt: move what both need into a package below both",
		}},
		"an import of the layer beside": {"db/more.go", []string{"idle"}, []string{
			"db/more.go:5: db may not import idle, whose layer [Tools] is beside its own: move what both need into a package below both",
		}},
		"a package": {"page/page.go", []string{"", "internal/rule"}, []string{
			`page/page.go: package page has no line in docs/packages.txt: ` +
				`add "page: guard internal/rule" to the layer it belongs to, below all that may import it`,
		}},
		"a package that imports nothing": {"page/page.go", nil, []string{
			`page/page.go: package page has no line in docs/packages.txt: add "page:" to the layer it belongs to, below all that may import it`,
		}},
	} {
		t.Run(sentence, func(t *testing.T) {
			tree := guard()
			tree[test.file] = source("more", test.imports...)
			problems, err := load(t, tree).Imports()
			require.NoError(t, err)
			require.Equal(t, test.want, problems)
		})
	}
}

func TestUnused(t *testing.T) {
	for sentence, test := range map[string]struct{ from, to, want string }{
		"a package": {
			"[Guard]", "[Guard]\npage: guard", "docs/packages.txt:13: there is no package page: remove its line",
		},
		"an import": {
			"idle: guard", "idle: guard internal/rule",
			"docs/packages.txt:10: idle does not import internal/rule any more: remove it from the line",
		},
		"an import of a package without a line": {
			"idle: guard", "idle: guard gone", "docs/packages.txt:10: idle imports gone, which has no line: add one, or correct the name",
		},
		"an arrow that points up": {
			"internal/rule/half:", "internal/rule/half: guard",
			"docs/packages.txt:16: internal/rule/half may not import guard, which stands above it in docs/packages.txt: " +
				"move what both need into a package below both",
		},
		"an arrow to itself": {
			"internal/rule/half:", "internal/rule/half: internal/rule/half",
			"docs/packages.txt:16: internal/rule/half may not import internal/rule/half, which stands above it in docs/packages.txt: " +
				"move what both need into a package below both",
		},
		"an arrow to the layer beside": {
			"db: guard", "db: guard idle",
			"docs/packages.txt:8: db may not import idle, whose layer [Tools] is beside its own: move what both need into a package below both",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			problems, err := load(t, listed(test.from, test.to)).Imports()
			require.NoError(t, err)
			require.Equal(t, []string{test.want}, problems)
		})
	}
}

func TestBadList(t *testing.T) {
	for sentence, test := range map[string]struct{ from, to, want string }{
		"a line without a colon":         {"idle: guard", "idle guard", `docs/packages.txt:10: "idle guard" is no line`},
		"a package twice":                {"idle: guard", "db: guard", "docs/packages.txt:10: db has a line already: line 8"},
		"a package above all layers":     {"[Programs]", "", "docs/packages.txt:4: tool is in no layer"},
		"a line that continues none":     {"[Programs]", "  guard", "docs/packages.txt:3: there is no line that this one could continue"},
		"a layer that is not closed":     {"[Guard]", "[Guard", "docs/packages.txt:12: this is no layer"},
		"a layer on a side that is none": {"[Guard]", "[Guard] below", "docs/packages.txt:12: this is no layer"},
		"a left layer alone":             {"[Tools] right", "[Tools]", "docs/packages.txt:9: nothing stands to the right of [Stores]"},
		"a right layer alone":            {"[Stores] left", "[Stores]", "docs/packages.txt:9: nothing stands to the left of this layer"},
	} {
		t.Run(sentence, func(t *testing.T) {
			_, err := load(t, listed(test.from, test.to)).Imports()
			require.ErrorContains(t, err, test.want)
		})
	}
}

// listed is the tree with another list.
func listed(from, to string) fstest.MapFS {
	tree := guard()
	tree[listFile] = &fstest.MapFile{Data: []byte(strings.Replace(list, from, to, 1))}
	return tree
}

func TestPicture(t *testing.T) {
	read, err := load(t, guard()).List()
	require.NoError(t, err)
	picture := string(read.Picture())
	t.Run("is XML", func(t *testing.T) {
		decoder := xml.NewDecoder(strings.NewReader(picture))
		_, err := decoder.Token()
		for ; err == nil; _, err = decoder.Token() {
			continue
		}
		require.ErrorIs(t, err, io.EOF)
	})
	t.Run("has every layer, and every package but those inside of others", func(t *testing.T) {
		for _, text := range []string{">Programs<", ">Stores<", ">Guard<", ">tool<", ">db<", ">idle<", ">guard<", ">internal/rule<"} {
			require.Contains(t, picture, text)
		}
		require.NotContains(t, picture, "half")
	})
	t.Run("has an arrow for what a layer imports of the next row", func(t *testing.T) {
		require.Equal(t, 5, strings.Count(picture, `class="arrow"`))
	})
}

// load reads a tree, and gives it what it needs of modules.
func load(t *testing.T, files fstest.MapFS) *doccode.Tree {
	t.Helper()
	for name, text := range map[string]string{"go.mod": "module example.com/guard\n", "go.work": "go 1.25\n\nuse .\n"} {
		if files[name] == nil {
			files[name] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	tree, err := doccode.Load(files)
	require.NoError(t, err)
	return tree
}

var standard = fstest.MapFS{
	"os/os.go":       {Data: []byte("package os\n\nfunc Open() {}\n")},
	"io/fs/fs.go":    {Data: []byte("package fs\n\nvar ErrNotExist error\n")},
	"embed/embed.go": {Data: []byte("package embed\n")},
}

// right is a small module in which every name exists.
func right() fstest.MapFS {
	return fstest.MapFS{
		"go.mod": {Data: []byte("module example.com/guard\n\ngo 1.25.0\n")},
		"guard.go": {Data: []byte(`// Package guard is a sample; see docs/guide.md.
package guard

import "os"

// A Guard has a [Guard.Limit], is made by [New] and stopped by [Guard.Stop]; see [os.Open].
//
//   - [Options] are embedded: [Guard.Quiet].
type Guard struct {
	Limit int
	Options
}

func lower() {}

// Options is a [*Guard]'s.
type Options struct{ Quiet bool }

// Stopper is what [Stopper.Stop] is asked of.
type Stopper interface{ Stop() }

// New opens.
func New() *Guard { os.Open(); return nil }

// Stop stops.
func (g *Guard) Stop() {
	// Inside of a function [New] is checked too; values[Index] and [a-z] are no links;
	// [lower] and [os] are.
}
`)},
		"sub/sub.go": {Data: []byte(`// Package sub uses [guard.New], [guard.Guard.Stop],
// [io/fs.ErrNotExist] and [yaml.Unseen].
package sub

import (
	"example.com/guard"
	"go.example.com/yaml/v4"
)
`)},
		"guard_test.go": {Data: []byte("package guard_test\n\n// helper makes a [Fixture] for [New].\n" +
			"func helper() {}\n\ntype Fixture struct{}\n")},
		"docs/guide.md": {Data: []byte("Use `guard.New` or `guard.Guard.Limit`, as [here](../guard.go) and " +
			"`os.Whatever`.\n\n```go\nguard.New().Whatever()\n```\n\n" +
			"```\nguard.Output\n```\n\n[place](#below) [other](https://example.com/x.md#there)\n\n" +
			"## Below\n\n## The `a.B`, 1st: one_two - X\n\n## Below\n")},
		"README.md": {Data: []byte("# Sample\n\n[one](docs/guide.md#the-ab-1st-one_two---x) [two](docs/guide.md#below-1)\n")},
	}
}

func TestCorrectTree(t *testing.T) {
	problems, err := load(t, right()).Names(standard)
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestProblems(t *testing.T) {
	const file = "wrong.go"
	for sentence, test := range map[string]struct {
		file, text, want string
	}{
		"a linked name": {
			file, "package guard\n\n// F is not\n// a [Nothing].\nfunc F() {}\n", "wrong.go:4: [Nothing] does not exist",
		},
		"a linked unexported name": {
			file, "package guard\n\n// F is not\n// [upper].\nfunc F() {}\n", "wrong.go:4: [upper] does not exist",
		},
		"a linked method": {
			file, "package guard\n\n// F is not [Guard.Start].\nfunc F() {}\n", "wrong.go:3: [Guard.Start] does not exist",
		},
		"a linked name in the body of a function": {
			file, "package guard\n\nfunc f() {\n\t// See [Nothing].\n}\n", "wrong.go:4: [Nothing] does not exist",
		},
		"a linked name in a list": {
			file, "package guard\n\n// F is not:\n//   - a [Nothing].\nfunc F() {}\n", "wrong.go:4: [Nothing] does not exist",
		},
		"a linked name of a test": {
			file, "package guard\n\n// F is not a [Fixture].\nfunc F() {}\n", "wrong.go:3: [Fixture] does not exist",
		},
		"a linked name of the standard library": {
			file, "package guard\n\n// F is not [os.Close].\nfunc F() {}\n", "wrong.go:3: [os.Close] does not exist",
		},
		"a linked name of another package": {
			"sub/wrong.go", "package sub\n\n// F is not [guard.Old].\nfunc F() {}\n",
			"sub/wrong.go:3: [guard.Old] does not exist",
		},
		"a linked name of a package that is not imported": {
			file, "package guard\n\n// F is not [sub.F].\nfunc F() {}\n", "wrong.go:3: [sub.F] does not exist",
		},
		"a linked name of a removed package": {
			file, "package guard\n\nimport \"example.com/guard/gone\"\n\n// F is not [gone.F].\nfunc F() {}\n",
			"wrong.go:5: [gone.F] does not exist",
		},
		"a document in a comment": {
			file, "package guard\n\n// F is in docs/gone.md.\nfunc F() {}\n", "wrong.go:3: docs/gone.md does not exist",
		},
		"a quoted name": {
			"README.md", "Use\n`guard.Old`.\n", "README.md:2: guard.Old does not exist",
		},
		"a quoted field": {
			"README.md", "Use `guard.Guard.Length`.\n", "README.md:1: guard.Guard.Length does not exist",
		},
		"a name in a code block": {
			"README.md", "```go\ng := guard.Make()\n```\n", "README.md:2: guard.Make does not exist",
		},
		"a linked document": {
			"docs/more.md", "See [more](gone.md#there).\n", "docs/more.md:1: gone.md does not exist",
		},
		"a linked heading": {
			"docs/more.md", "See\n[more](guide.md#above).\n", "docs/more.md:2: docs/guide.md has no heading #above",
		},
		"a linked heading of the same document": {
			"docs/more.md", "[more](#more) [there](#there)\n\n# More\n", "docs/more.md:1: docs/more.md has no heading #there",
		},
		"a linked heading that is one only in code": {
			"docs/more.md", "[more](#more)\n\n```sh\n# More\n```\n", "docs/more.md:1: docs/more.md has no heading #more",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			tree := right()
			tree[test.file] = &fstest.MapFile{Data: []byte(test.text)}
			problems, err := load(t, tree).Names(standard)
			require.NoError(t, err)
			require.Len(t, problems, 1)
			require.Equal(t, test.want, problems[0])
		})
	}
}

func TestSkippedDirs(t *testing.T) {
	tree := right()
	for _, name := range []string{"testdata/wrong.go", "bin/wrong.go", ".git/wrong.go", "sub/vendor/wrong.go"} {
		tree[name] = &fstest.MapFile{Data: []byte("this is not Go")}
	}
	problems, err := load(t, tree).Names(standard)
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestUnreadable(t *testing.T) {
	for name, file := range map[string]*fstest.MapFile{"wrong.go": {Data: []byte("this is not Go")}, "go.mod": {Mode: fs.ModeDir}, "go.work": {Mode: fs.ModeDir}} {
		t.Run(name, func(t *testing.T) {
			tree := right()
			tree[name] = file
			_, err := doccode.Load(tree)
			require.ErrorContains(t, err, name)
		})
	}
}

func TestWords(t *testing.T) {
	tree := fstest.MapFS{
		"a.go":            {Data: []byte("package a\ntype Stop struct{ Hold string }\ntype Hold struct{}\nfunc (h *Hold) Stop() *Stop { return nil }")},
		"b/b.go":          {Data: []byte("package b\ntype Stop int\ntype List[T any] struct{ Hold func() []a.Hold }\nfunc (l *List[T]) Hold() {}")},
		"b/b_test.go":     {Data: []byte("package b\ntype Hold int")},
		"internal/c/c.go": {Data: []byte("package c\ntype Hold int")},
	}
	require.Equal(t, []string{
		"Hold is a type in [.] and something else as Stop.Hold: rename one",
		"Hold is a type in [.] and something else as b/List.Hold: rename one",
		"Stop is a type in [. b]: give each a name of its own, or say what both mean",
	}, load(t, tree).Words(nil))
	require.Empty(t, load(t, tree).Words(map[string]string{"Hold": "a hold", "Stop": "an end"}))
}

func TestZero(t *testing.T) {
	tree := fstest.MapFS{
		"pkg/config.go": {Data: []byte(`package pkg

// A Config is one. The zero value of each is off.
type Config struct {
	// Limit is a limit, at most 1.5 hours. Zero means [DefaultLimit], [watchdog.NoLimit] none, see [Config].Other.
	Limit time.Duration
	// Other and Count are counted.
	Other int
	Count int64
	hidden int
	// Name is no measure.
	Name string
}

type (
	// Bare says nothing.
	Bare struct{ Least int }
	// An OtherConfig is not listed.
	OtherConfig struct{}
)

// A Result is none of the host's.
type Result struct{ Length time.Duration }
`)},
		"pkg/config_test.go": {Data: []byte("package pkg\n\ntype TestConfig struct{}\n")},
		"root.go": {Data: []byte(`package root

// A Run has a start. Zero is now.
type Run struct{ At time.Time }
`)},
	}
	table, problems := load(t, tree).Zero([]doccode.Settings{
		{Package: "pkg", Types: []string{"Config", "Bare", "Gone"}}, {Package: ".", Types: []string{"Run"}},
	})
	require.Equal(t, []string{
		"the comment of pkg.Bare.Least does not say what zero means", "there is no struct pkg.Gone",
		"pkg.OtherConfig is not among the settings",
	}, problems)
	require.Equal(t, ""+
		"| `pkg.Config.Limit` | Zero means `pkg.DefaultLimit`, `watchdog.NoLimit` none, see `pkg.Config.Other`. |\n"+
		"| `pkg.Config.Other`, `Count` | The zero value of each is off. |\n"+
		"| `pkg.Bare.Least` |  |\n"+
		"| `watchdog.Run.At` | Zero is now. |\n", table)
}
