package doccheck

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// A library finds packages by import path, in the tree and in the standard library. It reads each once.
type library struct {
	tree, standard fs.FS
	module         string // the path of the module at the top of the tree; the paths of nested modules begin with it
	sources        map[location]*source
}

// A location is a directory of the tree or of the standard library.
type location struct {
	standard bool
	dir      string
}

// A source holds the Go files of one directory. Its tests can use more names than its package.
type source struct {
	name      string // of the package; empty if there are only tests
	files     *token.FileSet
	syntax    map[string]*ast.File
	names     *names
	testNames *names
	imports   map[string]string // by the name that the package's files use
}

func newLibrary(tree, standard fs.FS) *library {
	l := &library{tree: tree, standard: standard, sources: map[location]*source{}}
	if text, err := fs.ReadFile(tree, "go.mod"); err == nil {
		_, after, _ := strings.Cut("\n"+string(text), "\nmodule ")
		l.module, _, _ = strings.Cut(after, "\n")
		l.module = strings.TrimSpace(l.module)
	}
	return l
}

// find returns the package of an import path. It returns nil if the package is in another module or does not exist.
func (l *library) find(importPath string) (*source, error) {
	if importPath == l.module {
		return l.readDir(location{dir: "."})
	}
	if dir, ours := strings.CutPrefix(importPath, l.module+"/"); ours && l.module != "" {
		return l.readDir(location{dir: dir})
	}
	return l.readDir(location{standard: true, dir: importPath})
}

// readDir reads the Go files of a directory. It returns nil if there are none.
func (l *library) readDir(at location) (*source, error) {
	if known, ok := l.sources[at]; ok {
		return known, nil
	}
	s, err := l.parse(at)
	if err == nil {
		l.sources[at] = s
	}
	return s, err
}

func (l *library) parse(at location) (*source, error) {
	from := l.tree
	if at.standard {
		from = l.standard
	}
	entries, err := fs.ReadDir(from, at.dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := newSource()
	for _, entry := range entries {
		name := path.Join(at.dir, entry.Name())
		if path.Ext(name) != ".go" || at.standard && isTest(name) {
			continue
		}
		if err := s.add(from, name); err != nil {
			return nil, err
		}
	}
	if len(s.syntax) == 0 {
		return nil, nil
	}
	return s, nil
}

func newSource() *source {
	return &source{
		files:  token.NewFileSet(),
		syntax: map[string]*ast.File{},
		names:  newNames(), testNames: newNames(),
		imports: map[string]string{},
	}
}

func (s *source) add(from fs.FS, name string) error {
	text, err := fs.ReadFile(from, name)
	if err != nil {
		return err
	}
	syntax, err := parser.ParseFile(s.files, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	s.syntax[name] = syntax
	s.addImports(syntax)
	s.testNames.add(syntax)
	if !isTest(name) {
		s.name = syntax.Name.Name
		s.names.add(syntax)
	}
	return nil
}

func (s *source) addImports(syntax *ast.File) {
	for _, spec := range syntax.Imports {
		importPath, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		name := packageName(importPath)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		s.imports[name] = importPath
	}
}

// packageName guesses the name of a package from its path: the last part that is not a version.
func packageName(importPath string) string {
	base := path.Base(importPath)
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		base = path.Base(path.Dir(importPath))
	}
	return base
}

func isTest(name string) bool { return strings.HasSuffix(name, "_test.go") }
