package doccheck

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// Words returns the exported words with two meanings of the packages that hosts import: a type whose name is also that
// of a type of another package, or of a field or a method that does not hold or return it. The words in sameMeaning
// are left out; their values say what they mean everywhere.
func Words(tree fs.FS, sameMeaning map[string]string) (problems []string, err error) {
	w := words{types: map[string][]string{}, members: map[string][]exportedMember{}}
	if err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		return w.visit(tree, name, entry, err)
	}); err != nil {
		return nil, err
	}
	for _, word := range slices.Sorted(maps.Keys(w.types)) {
		if sameMeaning[word] == "" {
			problems = append(problems, w.problems(word)...)
		}
	}
	return problems, nil
}

// notImported are the folders whose packages are not for hosts to import.
var notImported = []string{"internal", "testdata", "pgtest", "examples", "bench", "tools", "bin", "docs"}

// words are the exported types and members of a tree, by their names.
type words struct {
	types   map[string][]string // to their packages
	members map[string][]exportedMember
}

// An exportedMember is a field or method of an exported type.
type exportedMember struct{ name, kind string }

func (w *words) visit(tree fs.FS, name string, entry fs.DirEntry, err error) error {
	hidden := len(entry.Name()) > 1 && strings.HasPrefix(entry.Name(), ".")
	switch {
	case err != nil:
		return err
	case entry.IsDir() && (hidden || slices.Contains(notImported, entry.Name())):
		return fs.SkipDir
	case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
		return nil
	}
	text, err := fs.ReadFile(tree, name)
	if err != nil {
		return err
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, decl := range file.Decls {
		w.collect(path.Dir(name), decl)
	}
	return nil
}

func (w *words) problems(word string) (all []string) {
	packages := w.types[word]
	if len(packages) > 1 {
		all = append(all,
			fmt.Sprintf("%s is a type in %v: give each a name of its own, or say what both mean", word, packages))
	}
	for _, m := range w.members[word] {
		if kind := strings.TrimLeft(m.kind, "*[]"); kind != word && !strings.HasSuffix(kind, "."+word) {
			all = append(all, fmt.Sprintf("%s is a type in %v and something else as %s: rename one", word, packages, m.name))
		}
	}
	return all
}

func (w *words) collect(dir string, decl ast.Decl) {
	if f, ok := decl.(*ast.FuncDecl); ok && f.Recv != nil {
		w.add(dir, strings.TrimLeft(kindOf(f.Recv.List[0].Type), "*"), f.Name.Name, firstResult(f.Type))
	}
	group, ok := decl.(*ast.GenDecl)
	if !ok {
		return
	}
	for _, spec := range group.Specs {
		if s, ok := spec.(*ast.TypeSpec); ok && s.Name.IsExported() {
			w.collectType(dir, s)
		}
	}
}

func (w *words) collectType(dir string, s *ast.TypeSpec) {
	if !slices.Contains(w.types[s.Name.Name], dir) { // it may be declared once for each system
		w.types[s.Name.Name] = append(w.types[s.Name.Name], dir)
	}
	for _, field := range fieldsOf(s.Type) {
		kind := field.Type
		if f, ok := kind.(*ast.FuncType); ok {
			kind = firstResult(f)
		}
		for _, name := range field.Names {
			w.add(dir, s.Name.Name, name.Name, kind)
		}
	}
}

func (w *words) add(dir, owner, name string, kind ast.Expr) {
	if ast.IsExported(owner) && ast.IsExported(name) {
		w.members[name] = append(w.members[name], exportedMember{path.Join(dir, owner) + "." + name, kindOf(kind)})
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
