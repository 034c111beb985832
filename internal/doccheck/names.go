package doccheck

import (
	"go/ast"
	"strings"
)

// names are the names that a package declares: Name, and Type.Member for fields, methods and interface methods.
type names struct {
	declared map[string]bool
	types    map[string]bool
	embedded map[string][]string // the types that a type embeds; "?" for one of another package
}

func newNames() *names {
	return &names{declared: map[string]bool{}, types: map[string]bool{}, embedded: map[string][]string{}}
}

// has reports whether a name exists. Type.Member exists if the member is promoted too. If the type embeds a type of
// another package, has assumes that every member exists.
func (n *names) has(name string) bool {
	if n.declared[name] {
		return true
	}
	typeName, member, _ := strings.Cut(name, ".")
	for _, inner := range n.embedded[typeName] {
		if member != "" && (inner == "?" || inner != typeName && n.has(inner+"."+member)) {
			return true
		}
	}
	return false
}

// add adds the declarations of a file.
func (n *names) add(file *ast.File) {
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			n.addFunc(decl)
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				n.addSpec(spec)
			}
		}
	}
}

func (n *names) addFunc(decl *ast.FuncDecl) {
	if decl.Recv == nil {
		n.declared[decl.Name.Name] = true
		return
	}
	n.declared[typeName(decl.Recv.List[0].Type)+"."+decl.Name.Name] = true
}

func (n *names) addSpec(spec ast.Spec) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			n.declared[name.Name] = true
		}
	case *ast.TypeSpec:
		n.declared[spec.Name.Name], n.types[spec.Name.Name] = true, true
		n.addType(spec.Name.Name, spec.Type)
	}
}

func (n *names) addType(name string, expression ast.Expr) {
	switch expression := expression.(type) {
	case *ast.StructType:
		n.addMembers(name, expression.Fields)
	case *ast.InterfaceType:
		n.addMembers(name, expression.Methods)
	default: // defined by another type, and so has its members
		n.embedded[name] = append(n.embedded[name], typeName(expression))
	}
}

func (n *names) addMembers(of string, fields *ast.FieldList) {
	for _, field := range fields.List {
		for _, name := range field.Names {
			n.declared[of+"."+name.Name] = true
		}
		if len(field.Names) == 0 {
			n.embedded[of] = append(n.embedded[of], typeName(field.Type))
			n.declared[of+"."+lastName(field.Type)] = true
		}
	}
}

// typeName returns the name of a type: "?" for a type of another package, "" for one without a name.
func typeName(expression ast.Expr) string {
	switch expression := expression.(type) {
	case *ast.Ident:
		return expression.Name
	case *ast.StarExpr:
		return typeName(expression.X)
	case *ast.ParenExpr:
		return typeName(expression.X)
	case *ast.IndexExpr:
		return typeName(expression.X)
	case *ast.IndexListExpr:
		return typeName(expression.X)
	case *ast.SelectorExpr:
		return "?"
	}
	return ""
}

// lastName returns the name of an embedded field.
func lastName(expression ast.Expr) string {
	switch expression := expression.(type) {
	case *ast.StarExpr:
		return lastName(expression.X)
	case *ast.SelectorExpr:
		return expression.Sel.Name
	}
	return typeName(expression)
}
