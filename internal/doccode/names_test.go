package doccode_test

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/doccode"
)

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
