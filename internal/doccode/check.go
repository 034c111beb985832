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
	"regexp"
	"slices"
	"strings"
)

// A Checker checks snippets against the packages of one workspace. A snippet with a package clause is a file.
// Declarations are checked as they are, and everything else as the body of a function that returns an error; a package
// that such a snippet uses is imported, and other names that it does not declare are looked up in a file that stands
// for the host. A Checker is not safe for concurrent use.
type Checker struct {
	dir       string
	packages  map[string]string
	files     *token.FileSet
	host      *ast.File
	hostNames names
}

// New returns a Checker that runs Go in a folder. The packages are the paths of those that snippets use without an
// import, by their names. The host is the text of a Go file: what it declares, snippets can use.
func New(dir string, packages map[string]string, hostFile, host string) (*Checker, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, hostFile, host, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse the host: %w", err)
	}
	c := &Checker{dir: dir, packages: packages, files: files, host: file, hostNames: newNames()}
	c.hostNames.add(file)
	return c, nil
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

// A source is a snippet as a file of Go.
type source struct {
	file  *ast.File
	whole bool // it has a package clause of its own, and needs no host
	// unused are the imports that were added to it, and what the body of its function declares: what a host does with
	// them is not in the snippet.
	unused []ast.Node
}

var packageClause = regexp.MustCompile(`(?m)^package \w`)

// parse makes a file of a snippet: of declarations as they are, of statements in a function.
func (c *Checker) parse(s Snippet) (source, error) {
	body := fmt.Sprintf("//line %s:%d:1\n%s\n", s.File, s.Line, s.Code)
	if packageClause.MatchString(s.Code) {
		file, err := c.parseFile(body)
		return source{file: file, whole: true}, err
	}
	head := "package " + c.host.Name.Name + "\n"
	file, err := c.parseFile(head + body)
	wrapped := err != nil
	if wrapped {
		body = "func _() error {\n" + body + "return nil\n}\n"
		if file, err = c.parseFile(head + body); err != nil {
			return source{}, err
		}
	}
	for _, path := range c.used(file) {
		head += fmt.Sprintf("import %q\n", path)
	}
	if file, err = c.parseFile(head + body); err != nil {
		return source{}, err
	}
	parsed := source{file: file}
	for _, spec := range file.Imports {
		parsed.unused = append(parsed.unused, spec)
	}
	if wrapped {
		parsed.unused = append(parsed.unused, declaring(file.Decls[len(file.Decls)-1].(*ast.FuncDecl).Body)...)
	}
	return parsed, nil
}

// parseFile parses a file without a name: what a line directive names would be taken as relative to one.
func (c *Checker) parseFile(text string) (*ast.File, error) {
	return parser.ParseFile(c.files, "", text, parser.SkipObjectResolution)
}

// used returns the paths of the packages that a file seems to use without an import: what stands before a dot and has
// the name of a package, but not one of the host's.
func (c *Checker) used(file *ast.File) []string {
	var paths []string
	ast.Inspect(file, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := selector.X.(*ast.Ident); ok && c.packages[x.Name] != "" && !c.hostNames.has(x.Name) {
				paths = append(paths, c.packages[x.Name])
			}
		}
		return true
	})
	slices.Sort(paths)
	return slices.Compact(paths)
}

// declaring returns what declares variables in a block itself, not further inside.
func declaring(block *ast.BlockStmt) (found []ast.Node) {
	for _, statement := range block.List {
		switch statement := statement.(type) {
		case *ast.AssignStmt:
			for _, left := range statement.Lhs {
				found = append(found, left)
			}
		case *ast.DeclStmt:
			found = append(found, statement)
		}
	}
	return found
}

func (c *Checker) typeCheck(s source, compiled types.Importer) []error {
	var errs []error
	config := types.Config{Importer: compiled, Error: func(err error) {
		var typeErr types.Error
		of := func(n ast.Node) bool { return n.Pos() <= typeErr.Pos && typeErr.Pos < n.End() }
		if !errors.As(err, &typeErr) || !typeErr.Soft || !slices.ContainsFunc(s.unused, of) {
			errs = append(errs, err)
		}
	}}
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
	var paths []string
	for _, file := range append([]source{{file: c.host}}, sources...) {
		for _, spec := range file.file.Imports {
			_, path := imported(spec)
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	list := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}", "--"}
	cmd := exec.CommandContext(ctx, "go", append(list, slices.Compact(paths)...)...)
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
