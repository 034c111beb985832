package doccode

import (
	"fmt"
	"go/ast"
	"go/doc/comment"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// Names returns the places in comments and documents that name something that does not exist, one line for people each:
// a linked or quoted Go name, a document, or the target of a link, its heading included. Standard is the tree of the
// standard library, GOROOT/src. The names of other modules are not checked.
func (t *Tree) Names(standard fs.FS) ([]string, error) {
	c := &nameChecker{Tree: t, standard: standard, known: map[string]*goPackage{}}
	for _, folder := range t.folders() {
		p := t.packages[folder]
		for _, file := range p.files {
			for _, group := range file.Comments {
				if err := c.checkComment(p, group); err != nil {
					return nil, err
				}
			}
		}
	}
	for _, name := range t.documents {
		if err := c.checkDocument(name); err != nil {
			return nil, err
		}
	}
	return c.problems, nil
}

type nameChecker struct {
	*Tree
	standard fs.FS
	known    map[string]*goPackage // of the standard library, by path
	problems []string
}

func (c *nameChecker) report(file string, line int, format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf("%s:%d: ", file, line)+fmt.Sprintf(format, args...))
}

var packagePath = regexp.MustCompile(`^[a-z]\w*(?:[./]\w+)*$`)

// linkParser takes everything that looks like a link for one. Whether the name exists is checked later.
var linkParser = comment.Parser{
	LookupPackage: func(name string) (importPath string, ok bool) { return name, packagePath.MatchString(name) },
	LookupSym:     func(recv, name string) (ok bool) { return true },
}

func (c *nameChecker) checkComment(p *goPackage, group *ast.CommentGroup) error {
	file, line := c.at(group.Pos())
	text := group.Text()
	c.checkMentions(file, line, text)
	for _, link := range links(linkParser.Parse(text).Content) {
		ok, err := c.exists(p, isTest(file), link)
		if err != nil {
			return err
		}
		if !ok {
			written := strings.Trim(link.ImportPath+"."+member(link), ".")
			c.report(file, line+lineOf(text, "["+written+"]"), "[%s] does not exist", written)
		}
	}
	return nil
}

// lineOf counts the lines before a word. If the word is not found, it returns 0.
func lineOf(text, word string) int {
	before, _, found := strings.Cut(text, word)
	if !found {
		return 0
	}
	return strings.Count(before, "\n")
}

// links returns the links of a comment.
func links(blocks []comment.Block) []*comment.DocLink {
	var found []*comment.DocLink
	in := func(text []comment.Text) {
		for _, part := range text {
			if link, ok := part.(*comment.DocLink); ok {
				found = append(found, link)
			}
		}
	}
	for _, block := range blocks {
		switch block := block.(type) {
		case *comment.Paragraph:
			in(block.Text)
		case *comment.Heading:
			in(block.Text)
		case *comment.List:
			for _, item := range block.Items {
				found = append(found, links(item.Content)...)
			}
		}
	}
	return found
}

func member(link *comment.DocLink) string { return strings.TrimPrefix(link.Recv+"."+link.Name, ".") }

// exists reports whether a linked name exists. A link names a package by its name in the files' imports, or by its
// path. A single lower-case word is a package or an unexported name.
func (c *nameChecker) exists(p *goPackage, inTest bool, link *comment.DocLink) (bool, error) {
	own := p.names
	if inTest {
		own = p.testNames
	}
	switch {
	case link.ImportPath == "":
		return own.has(member(link)), nil
	case link.Name == "" && own.has(link.ImportPath):
		return true, nil
	}
	importPath, imported := p.imports[link.ImportPath]
	if !imported {
		importPath = link.ImportPath
	}
	target, err := c.find(importPath)
	if target == nil {
		_, ours := c.folder(importPath)
		return imported && !ours, err
	}
	return link.Name == "" || target.names.has(member(link)), err
}

// find returns the package of an import path, or nil if it is in another module or does not exist.
func (c *nameChecker) find(importPath string) (*goPackage, error) {
	if folder, ours := c.folder(importPath); ours {
		return c.packages[folder], nil
	}
	if p, known := c.known[importPath]; known {
		return p, nil
	}
	files, err := fs.Glob(c.standard, path.Join(importPath, "*.go"))
	if err != nil {
		return nil, err
	}
	var p *goPackage
	for _, name := range files {
		if isTest(name) {
			continue
		}
		if p == nil {
			p = newPackage()
		}
		if err := c.parse(p, c.standard, name); err != nil {
			return nil, err
		}
	}
	c.known[importPath] = p
	return p, nil
}

var mentions = regexp.MustCompile(`\bdocs/[\w.-]+\.md\b`)

// checkMentions checks that the documents named in a text exist.
func (c *nameChecker) checkMentions(file string, line int, text string) {
	for _, document := range mentions.FindAllString(text, -1) {
		if !c.hasFile(document) {
			c.report(file, line+lineOf(text, document), "%s does not exist", document)
		}
	}
}
