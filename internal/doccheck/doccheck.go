// Package doccheck finds places in comments and documents that name something that does not exist: a linked or quoted
// Go name, a document, or the target of a link, its heading included. It checks names only, not whether the text about
// them is true. It does not see a name without link or quotes.
package doccheck

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// A Problem is one place that names something that does not exist.
type Problem struct {
	File string
	Line int
	Text string
}

// String returns the place and the text, in the format of compilers.
func (p Problem) String() string { return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text) }

// Check reads every Go file and every Markdown file of a source tree and returns the problems, sorted by file and line.
// Standard is the tree of the standard library, GOROOT/src. Check does not check the names of other modules. It skips
// directories named testdata, bin or vendor, and those that begin with a dot.
func Check(tree, standard fs.FS) ([]Problem, error) {
	c := &checker{tree: tree, library: newLibrary(tree, standard)}
	err := fs.WalkDir(tree, ".", c.visit)
	slices.SortStableFunc(c.problems, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line)
	})
	return c.problems, err
}

type checker struct {
	tree     fs.FS
	library  *library
	byName   map[string][]*source // the packages of the tree by name; nil until the first document is checked
	problems []Problem
}

func (c *checker) report(file string, line int, format string, args ...any) {
	c.problems = append(c.problems, Problem{File: file, Line: line, Text: fmt.Sprintf(format, args...)})
}

func (c *checker) visit(name string, entry fs.DirEntry, err error) error {
	switch {
	case err != nil:
		return err
	case entry.IsDir() && skipped(name):
		return fs.SkipDir
	case entry.IsDir():
		return c.checkComments(name)
	case path.Ext(name) == ".md":
		return c.checkDocument(name)
	}
	return nil
}

func skipped(dir string) bool {
	base := path.Base(dir)
	return base == "testdata" || base == "bin" || base == "vendor" || dir != "." && strings.HasPrefix(base, ".")
}
