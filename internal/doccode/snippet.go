package doccode

import (
	"fmt"
	"go/doc"
	"go/doc/comment"
	"go/format"
	"go/parser"
	"go/token"
	"path"
	"strings"
)

// A Snippet is a piece of Go code in a document.
type Snippet struct {
	// File is the document, Line the line of the first line of Code, from 1.
	File string
	Line int
	Code string
}

// Comment returns the indented code in the comments of a Go file. What is not Go is left out: tables, output, YAML, and
// code with "..." for what does not matter.
func Comment(file, text string) []Snippet {
	var found []Snippet
	files := token.NewFileSet()
	syntax, _ := parser.ParseFile(files, file, text, parser.ParseComments) // the compiler tells what is wrong in it
	for _, group := range syntax.Comments {
		comments := group.Text()
		for _, block := range new(comment.Parser).Parse(comments).Content {
			code, isCode := block.(*comment.Code)
			if !isCode || !isGo(code.Text) {
				continue
			}
			first, _, _ := strings.Cut(code.Text, "\n")
			line := files.Position(group.Pos()).Line + lineOf(comments, "\t"+first)
			found = append(found, Snippet{File: file, Line: line, Code: strings.TrimSuffix(code.Text, "\n")})
		}
	}
	return found
}

// isGo reports whether a block could be statements or declarations.
func isGo(block string) bool {
	if strings.TrimSpace(block) == "" {
		return false
	}
	for _, file := range []string{"package p\n" + block, "package p\nfunc _() {\n" + block + "\n}"} {
		if _, err := parser.ParseFile(token.NewFileSet(), "", file, parser.SkipObjectResolution); err == nil {
			return true
		}
	}
	return false
}

// Examples returns the examples of a test file as programs, as pkg.go.dev shows them: the function, and what it uses of
// its file. An error in one is at its place in the program. It is an error if an example uses a name of another file.
func Examples(name, text string) ([]Snippet, error) {
	if !strings.HasPrefix(path.Base(name), "example") {
		return nil, nil
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	var programs []Snippet
	for _, example := range doc.Examples(file) {
		where := name + " (Example" + example.Name + ")"
		if example.Play == nil {
			return nil, fmt.Errorf("%s uses a name of another file: move it into this one", where)
		}
		var program strings.Builder
		if err := format.Node(&program, files, example.Play); err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		programs = append(programs, Snippet{File: where, Line: 1, Code: program.String()})
	}
	return programs, nil
}
