package doccode

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"slices"
	"strings"
)

// Words returns the exported words with two meanings of the packages that hosts import: a type whose name is also that
// of a type of another package, or of a field or a method that does not hold or return it. The words in sameMeaning
// are left out; their values say what they mean everywhere.
func (t *Tree) Words(sameMeaning map[string]string) (problems []string) {
	folders, members := map[string][]string{}, map[string][]exportedMember{} // by word
	for _, folder := range t.folders() {
		if slices.ContainsFunc(strings.Split(folder, "/"), notImported) {
			continue
		}
		for name, declared := range t.packages[folder].names.types {
			if ast.IsExported(name) {
				folders[name] = append(folders[name], folder)
				addMembers(members, path.Join(folder, name), declared)
			}
		}
	}
	for _, word := range slices.Sorted(maps.Keys(folders)) {
		if sameMeaning[word] != "" {
			continue
		}
		if len(folders[word]) > 1 {
			problems = append(problems,
				fmt.Sprintf("%s is a type in %v: give each a name of its own, or say what both mean", word, folders[word]))
		}
		slices.SortFunc(members[word], func(a, b exportedMember) int { return strings.Compare(a.of, b.of) })
		for _, m := range members[word] {
			if m.holds != word {
				problems = append(problems, fmt.Sprintf("%s is a type in %v and something else as %s.%s: rename one",
					word, folders[word], m.of, word))
			}
		}
	}
	return problems
}

// An exportedMember is a field or method of an exported type, with the name of the type that it holds or returns.
type exportedMember struct{ of, holds string }

// notImported reports whether the packages in a folder are not for hosts to import.
func notImported(folder string) bool {
	return slices.Contains([]string{"internal", "pgtest", "examples", "bench", "tools", "docs"}, folder)
}

func addMembers(all map[string][]exportedMember, of string, declared *declaredType) {
	for _, m := range declared.members {
		kind := m.Type
		if f, isFunc := kind.(*ast.FuncType); isFunc {
			kind = firstResult(f)
		}
		for _, name := range m.Names {
			if name.IsExported() {
				all[name.Name] = append(all[name.Name], exportedMember{of: of, holds: held(kind)})
			}
		}
	}
}

func firstResult(f *ast.FuncType) ast.Expr {
	if f.Results == nil || len(f.Results.List) == 0 {
		return nil
	}
	return f.Results.List[0].Type
}

// held is the name of a type without the slices around it.
func held(kind ast.Expr) string {
	switch kind := kind.(type) {
	case nil:
		return ""
	case *ast.StarExpr:
		return held(kind.X)
	case *ast.ArrayType:
		return held(kind.Elt)
	}
	_, name := typeName(kind)
	return name
}
