package doccheck

import (
	"go/ast"
	"go/doc/comment"
	"regexp"
	"slices"
	"strings"
)

// checkComments checks every comment of the Go files in a directory, also inside functions.
func (c *checker) checkComments(dir string) error {
	s, err := c.library.readDir(location{dir: dir})
	if err != nil || s == nil {
		return err
	}
	for file, syntax := range s.syntax {
		for _, group := range syntax.Comments {
			if err := c.checkComment(s, file, group); err != nil {
				return err
			}
		}
	}
	return nil
}

var packagePath = regexp.MustCompile(`^[a-z]\w*(?:[./]\w+)*$`)

// linkParser takes everything that looks like a link for one. Whether the name exists is checked later.
var linkParser = comment.Parser{
	LookupPackage: func(name string) (importPath string, ok bool) { return name, packagePath.MatchString(name) },
	LookupSym:     func(recv, name string) (ok bool) { return true },
}

func (c *checker) checkComment(s *source, file string, group *ast.CommentGroup) error {
	line := s.files.Position(group.Pos()).Line
	text := group.Text()
	c.checkMentions(file, line, text)
	for _, link := range links(linkParser.Parse(text).Content) {
		ok, err := c.exists(s, file, link)
		if err != nil {
			return err
		}
		if !ok {
			written := linkText(link)
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
	for _, block := range blocks {
		switch block := block.(type) {
		case *comment.Paragraph:
			found = append(found, linksIn(block.Text)...)
		case *comment.Heading:
			found = append(found, linksIn(block.Text)...)
		case *comment.List:
			for _, item := range block.Items {
				found = append(found, links(item.Content)...)
			}
		}
	}
	return found
}

func linksIn(text []comment.Text) []*comment.DocLink {
	var found []*comment.DocLink
	for _, part := range text {
		if link, ok := part.(*comment.DocLink); ok {
			found = append(found, link)
		}
	}
	return found
}

// linkText returns a link as its author wrote it.
func linkText(link *comment.DocLink) string {
	parts := []string{link.ImportPath, member(link)}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ".")
}

func member(link *comment.DocLink) string {
	if link.Recv == "" {
		return link.Name
	}
	return link.Recv + "." + link.Name
}

// exists reports whether a linked name exists. A link names a package by its name in the files' imports, or by its
// path. A single lower-case word is a package or an unexported name.
func (c *checker) exists(s *source, file string, link *comment.DocLink) (bool, error) {
	switch {
	case link.ImportPath == "":
		return s.has(file, member(link)), nil
	case link.Name == "" && s.has(file, link.ImportPath):
		return true, nil
	}
	importPath, imported := s.imports[link.ImportPath]
	if !imported {
		importPath = link.ImportPath
	}
	target, err := c.library.find(importPath)
	if err != nil {
		return false, err
	}
	if target == nil {
		return imported && !c.library.contains(importPath), nil
	}
	return link.Name == "" || target.names.has(member(link)), nil
}

// has reports whether a file of the package can use a name without a package before it.
func (s *source) has(file, name string) bool {
	return s.names.has(name) || isTest(file) && s.testNames.has(name)
}

// contains reports whether a package of that path belongs to the tree.
func (l *library) contains(importPath string) bool {
	return importPath == l.module || strings.HasPrefix(importPath, l.module+"/")
}

var documents = regexp.MustCompile(`\bdocs/[\w.-]+\.md\b`)

// checkMentions checks that the documents named in a text exist.
func (c *checker) checkMentions(file string, line int, text string) {
	for _, document := range documents.FindAllString(text, -1) {
		if !c.hasFile(document) {
			c.report(file, line+lineOf(text, document), "%s does not exist", document)
		}
	}
}
