// Package doccheck finds the places in comments and documents that name what does not exist (any more): a linked or
// quoted Go name, a document, the target of a link. It looks at names only; whether what is said of them is true, a
// reader has to find out, and a name without link or quotes is not seen.
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

// String puts the place before the text, as compilers do.
func (p Problem) String() string { return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text) }

// Check reads every Go file and every Markdown file of a source tree and returns what is wrong in them, ordered
// by file and line. The standard library is a tree of its own: GOROOT/src. Names of modules that are in neither are not
// checked. Folders named testdata, bin and vendor, and those that begin with a dot, are not read.
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
	byName   map[string][]*source // what documents may quote; read when the first one does
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
		return c.comments(name)
	case path.Ext(name) == ".md":
		return c.document(name)
	}
	return nil
}

func skipped(dir string) bool {
	base := path.Base(dir)
	return base == "testdata" || base == "bin" || base == "vendor" || dir != "." && strings.HasPrefix(base, ".")
}
