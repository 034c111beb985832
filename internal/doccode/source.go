package doccode

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// A source is a snippet as a file of Go.
type source struct {
	file  *ast.File
	whole bool // it has a package clause of its own, and needs no host
}

// parse makes a file of a snippet: of declarations as they are, of statements in a function.
func (c *Checker) parse(s Snippet) (source, error) {
	if packageClause.MatchString(s.Code) {
		file, err := c.parseFile(place(s) + s.Code)
		return source{file: file, whole: true}, err
	}
	body := place(s) + s.Code
	file, err := c.parseFile(c.head(nil) + body)
	if err != nil {
		file, err = c.parseFile(c.head(nil) + inFunction(s, nil))
		if err != nil {
			return source{}, err
		}
		body = inFunction(s, variables(file))
	}
	file, err = c.parseFile(c.head(c.used(file)) + body)
	return source{file: file}, err
}

var packageClause = regexp.MustCompile(`(?m)^package \w`)

// parseFile parses a file without a name: what [place] names would be taken as relative to one.
func (c *Checker) parseFile(text string) (*ast.File, error) {
	return parser.ParseFile(c.files, "", text, parser.SkipObjectResolution)
}

// place has what follows reported at its line of the document.
func place(s Snippet) string { return fmt.Sprintf("//line %s:%d:1\n", s.File, s.Line) }

// head begins a file of the host's package.
func (c *Checker) head(imports []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "package %s\n", c.host.Name.Name)
	for _, path := range imports {
		fmt.Fprintf(&b, "import %q\n", path)
	}
	return b.String()
}

// inFunction wraps statements. The variables are used, because what a host does with them is not in the snippet.
func inFunction(s Snippet, variables []string) string {
	var b strings.Builder
	b.WriteString("func _() error {\n" + place(s) + s.Code + "\n")
	for _, name := range variables {
		fmt.Fprintf(&b, "_ = %s\n", name)
	}
	b.WriteString("return nil\n}\n")
	return b.String()
}

// variables are those that the function of a wrapped snippet declares in its outermost block.
func variables(file *ast.File) []string {
	var names []string
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		for _, statement := range f.Body.List {
			names = append(names, declaredBy(statement)...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func declaredBy(statement ast.Stmt) []string {
	var names []string
	switch statement := statement.(type) {
	case *ast.AssignStmt:
		for _, left := range statement.Lhs {
			if name, ok := left.(*ast.Ident); ok && statement.Tok == token.DEFINE && name.Name != "_" {
				names = append(names, name.Name)
			}
		}
	case *ast.DeclStmt:
		for _, spec := range statement.Decl.(*ast.GenDecl).Specs {
			if v, ok := spec.(*ast.ValueSpec); ok && statement.Decl.(*ast.GenDecl).Tok == token.VAR {
				for _, name := range v.Names {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}

// used returns the paths of the packages that a file uses without an import: what stands before a dot, has the name of
// a package, and is declared by neither the file nor the host.
func (c *Checker) used(file *ast.File) []string {
	own := variables(file)
	var paths []string
	ast.Inspect(file, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := selector.X.(*ast.Ident); ok && !slices.Contains(own, x.Name) && !c.hostNames[x.Name] {
				paths = append(paths, c.paths(x.Name)...)
			}
		}
		return true
	})
	slices.Sort(paths)
	return slices.Compact(paths)
}

// paths is the path of the package of a name, if there is one.
func (c *Checker) paths(name string) []string {
	if path, ok := c.packages[name]; ok {
		return []string{path}
	}
	return nil
}
