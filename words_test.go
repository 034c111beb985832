package watchdog_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWords protects readers from a word with two meanings: the name of an exported type is nowhere the name of a field
// or a method, or of another package's type, that is about something else. It looks at the packages that hosts import.
func TestWords(t *testing.T) {
	types, members := map[string][]string{}, map[string][]member{}
	require.NoError(t, fs.WalkDir(os.DirFS("."), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (slices.Contains([]string{"internal", "testdata", "pgtest", "examples", "bench", "tools", "bin", "docs"}, entry.Name()) ||
			len(entry.Name()) > 1 && strings.HasPrefix(entry.Name(), ".")):
			return fs.SkipDir
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.FromSlash(name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		collectWords(path.Dir(name), file, types, members)
		return nil
	}))
	require.Contains(t, types, "Watchdog")
	for word, packages := range types {
		slices.Sort(packages)
		if where := slices.Compact(packages); len(where) > 1 && sameMeaning[word] == "" {
			t.Errorf("%s is a type in %v: give each a name of its own, or say in sameMeaning that they mean the same", word,
				where)
		}
		for _, m := range members[word] {
			if !m.of(word) && sameMeaning[word] == "" {
				t.Errorf("%s is a type in %v and something else as %s, of type %s: rename one", word, packages, m.name, m.kind)
			}
		}
	}
}

// sameMeaning are words that stand for the same thing wherever they are, with what that is.
var sameMeaning = map[string]string{
	"Config":   "how a thing of the package is made",
	"Store":    "what keeps the data of its package",
	"Memory":   "a store in memory",
	"Watchdog": "a guarded run; otelwatchdog's is one that is measured",
	"Keeper":   "session.Keeper is a watchdog.Keeper",
	"Attempt":  "one process's work at a run, and its number",
	"Hold":     "a stretch in which silence is expected, its key and its cap",
	"Budget":   "the limits of a run, and what there was of the one that was exceeded",
	"Grace":    "the time to end that is given before more is done",
	"Decision": "what a package decided",
	"Stage":    "a stage of converge, and its name",
	"Result":   "what came of what was run",
	"Stalled":  "what got stuck: a command, sessions",
	"Signal":   "what is sent to a process, and what a run sends; each is the standard word",
	"Run":      "a guarded run; as a method, what the standard library names so",
	"Error":    "an error and its text",
	"Calls":    "an account of calls, and the method that has it measured",
	"Pass":     "a pass of a sweeper, and the method that has it measured",
}

// A member is an exported field or method.
type member struct{ name, kind string }

// of reports whether the member holds or returns what the type is, so that the word means the same.
func (m member) of(word string) bool {
	kind := strings.TrimLeft(m.kind, "*[]")
	return kind == word || strings.HasSuffix(kind, "."+word)
}

func collectWords(dir string, file *ast.File, types map[string][]string, members map[string][]member) {
	add := func(owner, name string, kind ast.Expr) {
		if ast.IsExported(owner) && ast.IsExported(name) {
			members[name] = append(members[name], member{path.Join(dir, owner) + "." + name, kindOf(kind)})
		}
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil {
				add(strings.TrimLeft(kindOf(d.Recv.List[0].Type), "*"), d.Name.Name, firstResult(d.Type))
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				s, ok := spec.(*ast.TypeSpec)
				if !ok || !s.Name.IsExported() {
					continue
				}
				types[s.Name.Name] = append(types[s.Name.Name], dir)
				for _, field := range fieldsOf(s.Type) {
					kind := field.Type
					if f, ok := kind.(*ast.FuncType); ok {
						kind = firstResult(f)
					}
					for _, name := range field.Names {
						add(s.Name.Name, name.Name, kind)
					}
				}
			}
		}
	}
}

func fieldsOf(kind ast.Expr) []*ast.Field {
	switch k := kind.(type) {
	case *ast.StructType:
		return k.Fields.List
	case *ast.InterfaceType:
		return k.Methods.List
	}
	return nil
}

func firstResult(f *ast.FuncType) ast.Expr {
	if f.Results == nil || len(f.Results.List) == 0 {
		return nil
	}
	return f.Results.List[0].Type
}

// kindOf is a type as it is written, without the parameters of a generic one.
func kindOf(kind ast.Expr) string {
	switch k := kind.(type) {
	case *ast.Ident:
		return k.Name
	case *ast.StarExpr:
		return "*" + kindOf(k.X)
	case *ast.ArrayType:
		return "[]" + kindOf(k.Elt)
	case *ast.SelectorExpr:
		return kindOf(k.X) + "." + k.Sel.Name
	case *ast.IndexExpr:
		return kindOf(k.X)
	}
	return ""
}
