package doccode

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
)

// A Snippet is a piece of Go code in a document.
type Snippet struct {
	// File is the document, Line the line of the first line of Code, from 1.
	File string
	Line int
	Code string
}

const fence = "```"

var quoted = regexp.MustCompile("`[^`]+`")

// Markdown returns the blocks of a document that are marked as Go, and the expressions in backticks that call a method
// or a function of a package, or that are composite literals, in the order of the document.
func Markdown(file, text string) []Snippet {
	var found []Snippet
	var code []string // the lines of the block that the loop is in
	language, inside := "", false
	for i, line := range strings.Split(text, "\n") {
		mark, isFence := strings.CutPrefix(strings.TrimSpace(line), fence)
		switch {
		case isFence && !inside:
			language, inside, code = mark, true, nil
		case isFence:
			if language == "go" {
				found = append(found, Snippet{File: file, Line: i + 1 - len(code), Code: strings.Join(code, "\n")})
			}
			inside = false
		case inside:
			code = append(code, line)
		default:
			found = append(found, quotedIn(file, i+1, line)...)
		}
	}
	return found
}

// quotedIn returns the calls and the composite literals that a line quotes.
func quotedIn(file string, number int, line string) []Snippet {
	var found []Snippet
	for _, span := range quoted.FindAllString(line, -1) {
		code := strings.Trim(span, "`")
		expr, err := parser.ParseExpr(code)
		if err != nil {
			continue
		}
		switch expr := expr.(type) {
		case *ast.CallExpr:
			if _, ok := expr.Fun.(*ast.SelectorExpr); ok { // kill(-pgid) is not Go
				found = append(found, Snippet{File: file, Line: number, Code: code})
			}
		case *ast.CompositeLit:
			found = append(found, Snippet{File: file, Line: number, Code: "_ = " + code})
		}
	}
	return found
}

// Comment returns the indented code in the line comments of a Go file. Blank lines inside of a block belong to it. What
// is not Go is left out: tables, output, YAML, and code with "..." for what does not matter.
func Comment(file, text string) []Snippet {
	var found []Snippet
	var code []string
	first := 0
	end := func() {
		if block := strings.TrimRight(strings.Join(code, "\n"), "\n"); isGo(block) {
			found = append(found, Snippet{File: file, Line: first, Code: block})
		}
		code = nil
	}
	for i, line := range strings.Split(text, "\n") {
		indented, isCode := strings.CutPrefix(line, "//\t")
		switch {
		case isCode:
			if len(code) == 0 {
				first = i + 1
			}
			code = append(code, indented)
		case line == "//" && len(code) > 0:
			code = append(code, "")
		default:
			end()
		}
	}
	end()
	return found
}

// isGo reports whether a block could be statements or declarations.
func isGo(block string) bool {
	if strings.TrimSpace(block) == "" {
		return false
	}
	return parses("package p\n"+block) || parses("package p\nfunc _() {\n"+block+"\n}")
}

func parses(file string) bool {
	_, err := parser.ParseFile(token.NewFileSet(), "", file, parser.SkipObjectResolution)
	return err == nil
}
