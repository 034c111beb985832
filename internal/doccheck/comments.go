package doccheck

import (
	"go/ast"
	"go/doc/comment"
	"regexp"
	"slices"
	"strings"
)

// comments checks every comment of the Go files in a folder, those inside of functions too.
func (c *checker) comments(dir string) error {
	s, err := c.library.folder(folder{dir: dir})
	if err != nil || s == nil {
		return err
	}
	for file, syntax := range s.syntax {
		for _, group := range syntax.Comments {
			if err := c.comment(s, file, group); err != nil {
				return err
			}
		}
	}
	return nil
}

var packagePath = regexp.MustCompile(`^[a-z]\w*(?:[./]\w+)*$`)

// everything takes all that has the form of a link for one: whether there is such a name is checked afterwards.
var everything = comment.Parser{
	LookupPackage: func(name string) (importPath string, ok bool) { return name, packagePath.MatchString(name) },
	LookupSym:     func(recv, name string) (ok bool) { return true },
}

func (c *checker) comment(s *source, file string, group *ast.CommentGroup) error {
	line := s.files.Position(group.Pos()).Line
	text := group.Text()
	c.mentioned(file, line, text)
	for _, link := range links(everything.Parse(text).Content) {
		ok, err := c.exists(s, file, link)
		if err != nil {
			return err
		}
		if !ok {
			written := written(link)
			c.report(file, line+lineOf(text, "["+written+"]"), "[%s] does not exist", written)
		}
	}
	return nil
}

// lineOf counts the lines before a word; a word that is not found is in the first one.
func lineOf(text, word string) int {
	before, _, found := strings.Cut(text, word)
	if !found {
		return 0
	}
	return strings.Count(before, "\n")
}

// links are the names that a comment links.
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

// written is a link as its author wrote it.
func written(link *comment.DocLink) string {
	return strings.Join(slices.DeleteFunc([]string{link.ImportPath, member(link)}, func(part string) bool { return part == "" }), ".")
}

func member(link *comment.DocLink) string {
	if link.Recv == "" {
		return link.Name
	}
	return link.Recv + "." + link.Name
}

// exists looks a linked name up. A package is meant by the name that the files import it under, or by its path; a word in
// lower case by itself is a package or a name that is not exported.
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

// has reports whether a file of the package can mean a name by itself.
func (s *source) has(file, name string) bool {
	return s.names.has(name) || isTest(file) && s.inTests.has(name)
}

// contains reports whether a package of that path would be in the tree.
func (l *library) contains(importPath string) bool {
	return importPath == l.module || strings.HasPrefix(importPath, l.module+"/")
}

var documents = regexp.MustCompile(`\bdocs/[\w.-]+\.md\b`)

// mentioned checks the documents that a text sends its reader to.
func (c *checker) mentioned(file string, line int, text string) {
	for _, document := range documents.FindAllString(text, -1) {
		if !c.isThere(document) {
			c.report(file, line+lineOf(text, document), "%s does not exist", document)
		}
	}
}
