package importcheck

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// packages are those of a tree, by their names in the list.
type packages map[string]*source

// A source is what the files of a package import of the others.
type source struct {
	file    string            // its first
	imports map[string]string // by name; where the import stands
}

// A reader reads the packages of the modules that a tree's go.work uses.
type reader struct {
	tree  fs.FS
	root  string // the path of the module at the top of the tree, with which those of the others begin
	found packages
}

func readPackages(tree fs.FS) (packages, error) {
	dirs, err := modules(tree)
	if err != nil {
		return nil, err
	}
	r := &reader{tree: tree, found: packages{}}
	if r.root, err = r.module("."); err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		if err := r.readModule(dir); err != nil {
			return nil, err
		}
	}
	return r.found, nil
}

// modules are the folders that the tree's go.work names in its use directives.
func modules(tree fs.FS) (dirs []string, err error) {
	text, err := fs.ReadFile(tree, "go.work")
	if err != nil {
		return nil, fmt.Errorf("read the list of modules: %w", err)
	}
	inBlock := false
	for line := range strings.SplitSeq(string(text), "\n") {
		line, _, _ = strings.Cut(line, "//")
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case len(words) == 2 && words[0] == "use" && words[1] == "(":
			inBlock = true
		case len(words) == 2 && words[0] == "use":
			dirs = append(dirs, path.Clean(words[1]))
		case words[0] == ")":
			inBlock = false
		case inBlock:
			dirs = append(dirs, path.Clean(words[0]))
		}
	}
	return dirs, nil
}

// module returns the path of the module in a folder.
func (r *reader) module(dir string) (string, error) {
	file := path.Join(dir, "go.mod")
	text, err := fs.ReadFile(r.tree, file)
	if err != nil {
		return "", fmt.Errorf("read the path of a module: %w", err)
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "module" {
			return words[1], nil
		}
	}
	return "", fmt.Errorf("%s has no line with the path of the module", file)
}

// readModule reads the packages of a module, and not those of modules inside of it.
func (r *reader) readModule(top string) error {
	module, err := r.module(top)
	if err != nil {
		return err
	}
	return fs.WalkDir(r.tree, top, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != top && (skipped(name) || r.isModule(name)):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		dir := strings.TrimPrefix(strings.TrimPrefix(path.Dir(name), top), "/")
		if top == "." {
			dir = path.Dir(name)
		}
		return r.add(path.Join(module, dir), name)
	})
}

// skipped reports whether the go command leaves a folder alone.
func skipped(dir string) bool {
	base := path.Base(dir)
	return base == "testdata" || base == "vendor" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")
}

func (r *reader) isModule(dir string) bool {
	_, err := fs.Stat(r.tree, path.Join(dir, "go.mod"))
	return err == nil
}

// add takes over what a file of a package imports.
func (r *reader) add(importPath, file string) error {
	text, err := fs.ReadFile(r.tree, file)
	if err != nil {
		return err
	}
	files := token.NewFileSet()
	syntax, err := parser.ParseFile(files, file, text, parser.ImportsOnly)
	if err != nil {
		return err
	}
	name := r.name(importPath)
	s := r.found[name]
	if s == nil {
		s = &source{file: file, imports: map[string]string{}}
		r.found[name] = s
	}
	for _, spec := range syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		if to := r.name(imported); to != "" && s.imports[to] == "" {
			s.imports[to] = fmt.Sprintf("%s:%d", file, files.Position(spec.Pos()).Line)
		}
	}
	return nil
}

// name is a package in the list: the last part of its module's path for the root, the rest of the path for the others,
// and empty for packages of other people.
func (r *reader) name(importPath string) string {
	if importPath == r.root {
		return path.Base(r.root)
	}
	name, ours := strings.CutPrefix(importPath, r.root+"/")
	if !ours {
		return ""
	}
	return name
}
