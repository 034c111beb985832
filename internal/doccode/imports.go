package doccode

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// Imports returns what differs between the imports of the packages of all modules and those that the list wants, and
// what is wrong in the list itself, one line for people each: where it is, what it is, what to do. Files for other
// systems count, tests do not, and neither do the standard library and the modules of other people.
func (t *Tree) Imports() ([]string, error) {
	list, err := t.List()
	if err != nil {
		return nil, err
	}
	c := &importChecker{list: list, found: t.importing()}
	for _, l := range list.lines {
		c.line(l)
	}
	for _, name := range slices.Sorted(maps.Keys(c.found)) {
		c.pkg(name, c.found[name])
	}
	return c.problems, nil
}

// An importing is what the files of a package import of the others.
type importing struct {
	file    string            // its first
	imports map[string]string // by name; where the import stands
}

// importing returns the packages of the modules that go.work uses, by their names in the list.
func (t *Tree) importing() map[string]*importing {
	found := map[string]*importing{}
	for _, folder := range t.folders() {
		if t.packages[folder].name != "" && t.uses(folder) {
			found[t.listed(folder)] = t.importsOf(folder)
		}
	}
	return found
}

// uses reports whether a folder is in a module that go.work uses, or in the one at the top.
func (t *Tree) uses(folder string) bool {
	for ; folder != "."; folder = path.Dir(folder) {
		if used, isModule := t.modules[folder]; isModule {
			return used
		}
	}
	return true
}

func (t *Tree) importsOf(folder string) *importing {
	found := &importing{imports: map[string]string{}}
	for _, syntax := range t.packages[folder].files {
		file, _ := t.at(syntax.Package)
		if isTest(file) {
			continue
		}
		if found.file == "" {
			found.file = file
		}
		for _, spec := range syntax.Imports {
			_, importPath := imported(spec)
			other, ours := t.folder(importPath)
			if name := t.listed(other); ours && found.imports[name] == "" {
				_, line := t.at(spec.Pos())
				found.imports[name] = fmt.Sprintf("%s:%d", file, line)
			}
		}
	}
	return found
}

// listed is the name of a package in the list: its folder, and for that at the top the name of the module.
func (t *Tree) listed(folder string) string {
	if folder == "." {
		return path.Base(t.module)
	}
	return folder
}

type importChecker struct {
	list     *List
	found    map[string]*importing
	problems []string
}

func (c *importChecker) report(at, format string, args ...any) {
	c.problems = append(c.problems, at+": "+fmt.Sprintf(format, args...))
}

// line checks a line of the list: whether what it says may be, and whether it still is.
func (c *importChecker) line(l *line) {
	s, exists := c.found[l.name]
	if !exists {
		c.report(l.at(), "there is no package %s: remove its line", l.name)
		return
	}
	for _, name := range l.imports {
		to := c.list.byName[name]
		switch {
		case to == nil:
			c.report(l.at(), "%s imports %s, which has no line: add one, or correct the name", l.name, name)
		case l.flaw(to) != "":
			c.report(l.at(), "%s", l.flaw(to))
		case s.imports[name] == "":
			c.report(l.at(), "%s does not import %s any more: remove it from the line", l.name, name)
		}
	}
}

// pkg checks the imports of a package.
func (c *importChecker) pkg(name string, s *importing) {
	l := c.list.byName[name]
	if l == nil {
		c.report(s.file, "package %s has no line in %s: add %q to the layer it belongs to, below all that may import it",
			name, listFile, strings.TrimSpace(name+": "+strings.Join(slices.Sorted(maps.Keys(s.imports)), " ")))
		return
	}
	for _, imported := range slices.Sorted(maps.Keys(s.imports)) {
		to := c.list.byName[imported]
		switch {
		case slices.Contains(l.imports, imported) || to == nil && c.found[imported] != nil: // told above, or below
		case to == nil:
			c.report(s.imports[imported], "%s imports %s, which does not exist", name, imported)
		case l.flaw(to) != "":
			c.report(s.imports[imported], "%s", l.flaw(to))
		default:
			c.report(s.imports[imported], "%s may not import %s: do without, or add it to line %d of %s and run make golden",
				name, imported, l.number, listFile)
		}
	}
}
