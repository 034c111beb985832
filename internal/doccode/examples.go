package doccode

import (
	"fmt"
	"go/doc"
	"go/format"
	"go/parser"
	"go/token"
	"path"
	"strings"
)

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
