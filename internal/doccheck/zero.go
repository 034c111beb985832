package doccheck

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Settings are the types of a package that a host fills in.
type Settings struct {
	Package string // its folder
	Types   []string
}

// measures matches the types of lengths, times, counts and amounts.
var measures = regexp.MustCompile(
	`^(time\.(Duration|Time)|u?int\d*|float64|Money|Totals|map\[string\]int64|\[\]float64)$`)

// sentence matches one of a comment, ofZero what says one that tells of zero, and link a link of a comment.
var (
	sentence = regexp.MustCompile(`[^.]+(?:\.\S[^.]*)*\.`)
	ofZero   = regexp.MustCompile(`(?i)\b(zero|nil)\b`)
	link     = regexp.MustCompile(`\[\*?([\w.]+)\](\.\w+)?`)
)

// Zero returns a table of what the comments of the fields say of zero, a line for each comment: of those that are
// lengths, times, counts or amounts. What the comment of a field does not say that of its type does. The problems are
// fields of which neither says it, types that there are not, and those whose name ends in Config and which are not
// among the settings.
func Zero(tree fs.FS, all []Settings) (table string, problems []string, err error) {
	z := &zero{}
	for _, of := range all {
		structs, err := structsOf(tree, of.Package)
		if err != nil {
			return "", nil, err
		}
		z.pkg = path.Base(of.Package)
		if of.Package == "." {
			z.pkg = "watchdog"
		}
		for _, name := range of.Types {
			z.add(name, structs[name])
		}
		for _, name := range slices.Sorted(maps.Keys(structs)) {
			if strings.HasSuffix(name, "Config") && !slices.Contains(of.Types, name) {
				z.problems = append(z.problems, fmt.Sprintf("%s.%s is not among the settings", z.pkg, name))
			}
		}
	}
	return z.table.String(), z.problems, nil
}

// A documented is an exported struct with the comment of its type.
type documented struct {
	doc    string
	fields []*ast.Field
}

// structsOf parses the exported structs of a package.
func structsOf(tree fs.FS, pkg string) (map[string]*documented, error) {
	all := map[string]*documented{}
	files, err := fs.Glob(tree, path.Join(pkg, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			decl, isDecl := n.(*ast.GenDecl)
			if isDecl {
				addStructs(all, decl)
			}
			return !isDecl
		})
	}
	return all, nil
}

func addStructs(all map[string]*documented, decl *ast.GenDecl) {
	for _, spec := range decl.Specs {
		t, isType := spec.(*ast.TypeSpec)
		if !isType || !t.Name.IsExported() {
			continue
		}
		if s, isStruct := t.Type.(*ast.StructType); isStruct {
			all[t.Name.Name] = &documented{decl.Doc.Text() + t.Doc.Text(), s.Fields.List}
		}
	}
}

// zero is a table in the making.
type zero struct {
	pkg      string
	table    strings.Builder
	problems []string
}

// add adds the rows of a struct. Fields that follow one another without a comment are in that of the first.
func (z *zero) add(of string, s *documented) {
	if s == nil {
		z.problems = append(z.problems, fmt.Sprintf("there is no struct %s.%s", z.pkg, of))
		return
	}
	var names []string
	doc := ""
	row := func() {
		if len(names) == 0 {
			return
		}
		said := z.said(doc)
		if said == "" {
			said = z.said(s.doc)
		}
		first := fmt.Sprintf("%s.%s.%s", z.pkg, of, names[0])
		if said == "" {
			z.problems = append(z.problems, fmt.Sprintf("the comment of %s does not say what zero means", first))
		}
		names[0] = first
		fmt.Fprintf(&z.table, "| `%s` | %s |\n", strings.Join(names, "`, `"), said)
		names = nil
	}
	for _, field := range s.fields {
		if own := field.Doc.Text(); own != "" {
			row()
			doc = own
		}
		for _, name := range field.Names {
			if name.IsExported() && measures.MatchString(typeText(field.Type)) {
				names = append(names, name.Name)
			}
		}
	}
	row()
}

// said returns the sentences of a comment that tell of zero, with code in place of its links.
func (z *zero) said(doc string) string {
	doc = strings.Join(strings.Fields(doc), " ")
	said := slices.DeleteFunc(sentence.FindAllString(doc, -1), func(s string) bool { return !ofZero.MatchString(s) })
	for i, s := range said {
		said[i] = link.ReplaceAllStringFunc(strings.TrimSpace(s), func(s string) string {
			parts := link.FindStringSubmatch(s)
			name := parts[1] + parts[2]
			if ast.IsExported(name) {
				name = z.pkg + "." + name
			}
			return "`" + name + "`"
		})
	}
	return strings.Join(said, " ")
}

// typeText is a type as it is written, as far as those are that measure something.
func typeText(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return typeText(e.X) + "." + e.Sel.Name
	case *ast.ArrayType:
		return "[]" + typeText(e.Elt)
	case *ast.MapType:
		return "map[" + typeText(e.Key) + "]" + typeText(e.Value)
	}
	return ""
}
