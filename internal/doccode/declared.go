package doccode

import (
	"go/ast"
	"go/types"
	"regexp"
	"slices"
	"strings"
)

// names are what a package declares.
type names struct {
	values map[string]bool // constants, variables and functions
	types  map[string]*declaredType
}

// A declaredType is a type with its fields and methods. A member without a name is embedded; a type that is defined by
// another one has that as such a member.
type declaredType struct {
	doc     string
	members []*ast.Field
}

func newNames() names { return names{values: map[string]bool{}, types: map[string]*declaredType{}} }

// add adds the declarations of a file.
func (n names) add(file *ast.File) {
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv == nil {
				n.values[decl.Name.Name] = true
				continue
			}
			_, of := typeName(decl.Recv.List[0].Type)
			n.addMembers(of, &ast.Field{Names: []*ast.Ident{decl.Name}, Type: decl.Type})
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				n.addSpec(spec, decl.Doc.Text())
			}
		}
	}
}

func (n names) addSpec(spec ast.Spec, doc string) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			n.values[name.Name] = true
		}
	case *ast.TypeSpec:
		name := spec.Name.Name
		switch expression := spec.Type.(type) {
		case *ast.StructType:
			n.addMembers(name, expression.Fields.List...)
		case *ast.InterfaceType:
			n.addMembers(name, expression.Methods.List...)
		default:
			n.addMembers(name, &ast.Field{Type: expression})
		}
		n.types[name].doc = doc + spec.Doc.Text()
	}
}

func (n names) addMembers(of string, members ...*ast.Field) {
	if n.types[of] == nil {
		n.types[of] = &declaredType{}
	}
	n.types[of].members = append(n.types[of].members, members...)
}

// has reports whether a name exists: Name, or Type.Member, which exists if the member is promoted too. If the type
// embeds a type of another package, has assumes that every member exists.
func (n names) has(name string) bool {
	name, member, ofType := strings.Cut(name, ".")
	if !ofType {
		return n.values[name] || n.types[name] != nil
	}
	gives := func(m *ast.Field) bool { return n.gives(name, m, member) }
	return n.types[name] != nil && slices.ContainsFunc(n.types[name].members, gives)
}

// gives reports whether a member of a type has a name, or promotes what has it.
func (n names) gives(of string, m *ast.Field, name string) bool {
	if len(m.Names) == 0 {
		from, embedded := typeName(m.Type)
		return embedded == name || from != "" || embedded != of && n.has(embedded+"."+name)
	}
	return slices.ContainsFunc(m.Names, func(own *ast.Ident) bool { return own.Name == name })
}

var named = regexp.MustCompile(`^[*(]*(?:(\w+)\.)?(\w+)`)

// typeName returns the name of a type without what is around it, and the package that it is from, if that is another.
func typeName(expression ast.Expr) (from, name string) {
	match := named.FindStringSubmatch(types.ExprString(expression))
	if match == nil {
		return "", ""
	}
	return match[1], match[2]
}
