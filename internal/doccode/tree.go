package doccode

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Tree is a source tree that was read: the Go files, the documents, and the modules that its go.work uses. It is not
// safe for concurrent use.
type Tree struct {
	files     fs.FS
	module    string          // the path of the module at the top; the paths of the others begin with it
	modules   map[string]bool // by folder; whether go.work uses them, without that at the top
	positions *token.FileSet
	packages  map[string]*goPackage // by folder
	documents []string
}

// A goPackage is what the Go files of a folder declare and import. Its tests can use more names than others.
type goPackage struct {
	name             string // empty if there are only tests
	files            []*ast.File
	names, testNames names
	imports          map[string]string // by the name that the files use
}

// Load reads every Go file of a tree. It skips folders named testdata, bin or vendor, and those whose name begins with
// a dot or an underscore.
func Load(files fs.FS) (*Tree, error) {
	t := &Tree{
		files: files, modules: map[string]bool{}, positions: token.NewFileSet(), packages: map[string]*goPackage{},
	}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && skipped(name):
			return fs.SkipDir
		case path.Base(name) == "go.mod":
			t.modules[path.Dir(name)] = false
		case path.Ext(name) == ".md":
			t.documents = append(t.documents, name)
		case path.Ext(name) == ".go":
			if t.packages[path.Dir(name)] == nil {
				t.packages[path.Dir(name)] = newPackage()
			}
			return t.parse(t.packages[path.Dir(name)], files, name)
		}
		return nil
	})
	return t, errors.Join(err, t.readModules())
}

var (
	modulePath = regexp.MustCompile(`(?m)^module (\S+)`)
	useLine    = regexp.MustCompile(`(?m)^(?:use)?\s+(\./\S+)`)
)

// readModules reads the path of the module at the top, and which others go.work uses.
func (t *Tree) readModules() error {
	mod, err := fs.ReadFile(t.files, "go.mod")
	if path := modulePath.FindSubmatch(mod); path != nil {
		t.module = string(path[1])
	}
	work, workErr := fs.ReadFile(t.files, "go.work")
	for _, use := range useLine.FindAllStringSubmatch(string(work), -1) {
		t.modules[path.Clean(use[1])] = true
	}
	return errors.Join(err, workErr)
}

func skipped(dir string) bool {
	base := path.Base(dir)
	hidden := dir != "." && strings.ContainsAny(base[:1], "._")
	return hidden || slices.Contains([]string{"testdata", "bin", "vendor"}, base)
}

func newPackage() *goPackage {
	return &goPackage{names: newNames(), testNames: newNames(), imports: map[string]string{}}
}

// parse adds a file to a package.
func (t *Tree) parse(p *goPackage, from fs.FS, name string) error {
	text, err := fs.ReadFile(from, name)
	if err != nil {
		return err
	}
	file, err := parser.ParseFile(t.positions, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	p.files = append(p.files, file)
	for _, spec := range file.Imports {
		name, importPath := imported(spec)
		p.imports[name] = importPath
	}
	p.testNames.add(file)
	if !isTest(name) {
		p.name = file.Name.Name
		p.names.add(file)
	}
	return nil
}

func isTest(name string) bool { return strings.HasSuffix(name, "_test.go") }

// imported returns the path of an import, and the name of the package: without one of its own, the last part of the
// path that is not a version.
func imported(spec *ast.ImportSpec) (name, importPath string) {
	importPath, _ = strconv.Unquote(spec.Path.Value) // the parser has checked it
	name = path.Base(importPath)
	if len(name) > 1 && name[0] == 'v' && strings.Trim(name[1:], "0123456789") == "" {
		name = path.Base(path.Dir(importPath))
	}
	if spec.Name != nil {
		name = spec.Name.Name
	}
	return name, importPath
}

// folders are those with Go files, in order.
func (t *Tree) folders() []string { return slices.Sorted(maps.Keys(t.packages)) }

// folder returns that of a package of the tree, and whether its path is of one.
func (t *Tree) folder(importPath string) (string, bool) {
	if importPath == t.module {
		return ".", true
	}
	return strings.CutPrefix(importPath, t.module+"/")
}

// at is the file of a place, and its line.
func (t *Tree) at(pos token.Pos) (file string, line int) {
	position := t.positions.Position(pos)
	return position.Filename, position.Line
}

func (t *Tree) hasFile(name string) bool {
	_, err := fs.Stat(t.files, name)
	return err == nil
}
