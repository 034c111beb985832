// Package importcheck compares the imports between the packages of all modules with a list of those that are wanted,
// docs/packages.txt, and draws that list.
//
// It reads import lines and builds nothing: files for other systems count, tests do not. It does not look at imports
// of the standard library or of other people's modules.
package importcheck

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// Check returns what differs between the imports of a source tree and its list, and what is wrong in the list itself,
// one line for people each: where it is, what it is, what to do. The tree has a go.work and the list at [ListFile].
func Check(tree fs.FS) ([]string, error) {
	list, err := ReadList(tree)
	if err != nil {
		return nil, err
	}
	found, err := readPackages(tree)
	if err != nil {
		return nil, err
	}
	c := &checker{list: list, found: found}
	for _, l := range list.lines() {
		c.line(l)
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		c.source(name, found[name])
	}
	return c.problems, nil
}

type checker struct {
	list     *List
	found    packages
	problems []string
}

func (c *checker) report(at, format string, args ...any) {
	c.problems = append(c.problems, at+": "+fmt.Sprintf(format, args...))
}

// line checks a line of the list: whether what it says may be, and whether it still is.
func (c *checker) line(l *line) {
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

// source checks the imports of a package.
func (c *checker) source(name string, s *source) {
	l := c.list.byName[name]
	if l == nil {
		c.report(s.file, "package %s has no line in %s: add %q to the layer it belongs to, below all that may import it",
			name, ListFile, strings.TrimSpace(name+": "+strings.Join(slices.Sorted(maps.Keys(s.imports)), " ")))
		return
	}
	for _, imported := range slices.Sorted(maps.Keys(s.imports)) {
		to := c.list.byName[imported]
		switch {
		case slices.Contains(l.imports, imported) || to == nil && c.found[imported] != nil: // told above, or below
		case to == nil:
			c.report(s.imports[imported], "%s imports %s, which does not exist", name, imported)
		case l.flaw(to) != "":
			c.report(s.imports[imported], "%s%s", l.flaw(to), c.circle(name, imported))
		default:
			c.report(s.imports[imported], "%s may not import %s: do without, or add it to line %d of %s and run make golden",
				name, imported, l.number, ListFile)
		}
	}
}

// circle says which circle an import closes, or nothing.
func (c *checker) circle(from, to string) string {
	way := c.way(to, from, map[string]bool{})
	if way == nil {
		return ""
	}
	return "; it closes the circle " + strings.Join(append([]string{from}, way...), " -> ")
}

// way is a chain of imports from one package to another, nil if there is none.
func (c *checker) way(from, to string, seen map[string]bool) []string {
	if from == to {
		return []string{to}
	}
	s := c.found[from]
	if s == nil || seen[from] {
		return nil
	}
	seen[from] = true
	for _, next := range slices.Sorted(maps.Keys(s.imports)) {
		if rest := c.way(next, to, seen); rest != nil {
			return append([]string{from}, rest...)
		}
	}
	return nil
}
