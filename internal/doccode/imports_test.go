package doccode_test

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

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
