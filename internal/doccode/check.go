package doccode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// A Checker checks snippets against the packages of one workspace. It is not safe for concurrent use.
type Checker struct {
	dir       string
	packages  map[string]string
	files     *token.FileSet
	host      *ast.File
	hostNames map[string]bool
}

// New returns a Checker that runs Go in a folder. The packages are the paths of those that snippets use without an
// import, by their names. The host is the text of a Go file: what it declares, snippets can use.
func New(dir string, packages map[string]string, hostFile, host string) (*Checker, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, hostFile, host, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse the host: %w", err)
	}
	c := &Checker{dir: dir, packages: packages, files: files, host: file, hostNames: map[string]bool{}}
	for _, decl := range file.Decls {
		for _, name := range declaredAtTop(decl) {
			c.hostNames[name] = true
		}
	}
	return c, nil
}

func declaredAtTop(decl ast.Decl) []string {
	var names []string
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Recv == nil {
			names = append(names, decl.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				names = append(names, spec.Name.Name)
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}

// Check returns what is wrong in the snippets, joined; each error begins with its place in the document. An import that
// does not exist, and a dependency that does not compile, is an error of Go's, without a place.
func (c *Checker) Check(ctx context.Context, snippets []Snippet) error {
	var sources []source
	var errs []error
	for _, s := range snippets {
		parsed, err := c.parse(s)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		sources = append(sources, parsed)
	}
	compiled, err := c.compile(ctx, sources)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	for _, s := range sources {
		errs = append(errs, c.typeCheck(s, compiled)...)
	}
	return errors.Join(errs...)
}

func (c *Checker) typeCheck(s source, compiled types.Importer) []error {
	var errs []error
	config := types.Config{Importer: compiled, Error: func(err error) { errs = append(errs, err) }}
	parts := []*ast.File{s.file}
	if !s.whole {
		parts = append(parts, c.host)
	}
	pkg, _ := config.Check(s.file.Name.Name, c.files, parts, nil) // the first of errs
	if pkg != nil && pkg.Name() == "main" && pkg.Scope().Lookup("main") == nil {
		errs = append(errs, fmt.Errorf("%s: a program without a func main", c.files.Position(s.file.Name.Pos())))
	}
	return errs
}

// compile has Go compile what the sources import, and returns an importer that reads it.
func (c *Checker) compile(ctx context.Context, sources []source) (types.Importer, error) {
	files := []*ast.File{c.host}
	for _, s := range sources {
		files = append(files, s.file)
	}
	list := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}", "--"}
	cmd := exec.CommandContext(ctx, "go", append(list, imported(files)...)...)
	cmd.Dir = c.dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("compile what the documents import: %w\n%s", err, stderr.Bytes())
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, export, _ := strings.Cut(strings.TrimSpace(line), "\t")
		exports[path] = export
	}
	open := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	return importer.ForCompiler(c.files, "gc", open), nil
}

func imported(files []*ast.File) []string {
	var paths []string
	for _, file := range files {
		for _, spec := range file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err == nil {
				paths = append(paths, path)
			}
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}
