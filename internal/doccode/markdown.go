package doccode

import (
	"fmt"
	"go/ast"
	"go/parser"
	"regexp"
	"strings"
	"unicode"
)

// A markdownLine is a line of a Markdown file that does not begin or end a block of code.
type markdownLine struct {
	number          int
	text            string
	inBlock, begins bool
	language        string // of the block
}

func linesOf(text string) (all []markdownLine) {
	block := markdownLine{}
	for i, line := range strings.Split(text, "\n") {
		if language, ok := strings.CutPrefix(strings.TrimSpace(line), "```"); ok {
			block = markdownLine{inBlock: !block.inBlock, begins: true}
			if block.inBlock {
				block.language = language
			}
			continue
		}
		block.number, block.text = i+1, line
		all = append(all, block)
		block.begins = false
	}
	return all
}

var heading = regexp.MustCompile(`^#{1,6} +(.+?) *$`)

// anchors are those of the headings of a Markdown text, in the form of GitHub. A heading that is there again gets a
// number.
func anchors(text string) map[string]bool {
	found, times := map[string]bool{}, map[string]int{}
	for _, line := range linesOf(text) {
		match := heading.FindStringSubmatch(line.text)
		if line.inBlock || match == nil {
			continue
		}
		name := anchorOf(match[1])
		if n := times[name]; n > 0 {
			found[fmt.Sprintf("%s-%d", name, n)] = true
		}
		found[name] = true
		times[name]++
	}
	return found
}

// anchorOf is the anchor of a heading: its letters and digits in lower case, and a hyphen for each space.
func anchorOf(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}

var quoted = regexp.MustCompile("`[^`]+`")

// Markdown returns the blocks of a document that are marked as Go, and the expressions in backticks that call a method
// or a function of a package, or that are composite literals, in the order of the document.
func Markdown(file, text string) []Snippet {
	var found []Snippet
	for _, line := range linesOf(text) {
		switch {
		case !line.inBlock:
			found = append(found, quotedIn(file, line)...)
		case line.language == "go" && line.begins:
			found = append(found, Snippet{File: file, Line: line.number, Code: line.text})
		case line.language == "go":
			found[len(found)-1].Code += "\n" + line.text
		}
	}
	return found
}

// quotedIn returns the calls and the composite literals that a line quotes.
func quotedIn(file string, line markdownLine) []Snippet {
	var found []Snippet
	for _, span := range quoted.FindAllString(line.text, -1) {
		code := strings.Trim(span, "`")
		expr, err := parser.ParseExpr(code)
		if err != nil {
			continue
		}
		switch expr := expr.(type) {
		case *ast.CallExpr:
			if _, ok := expr.Fun.(*ast.SelectorExpr); ok { // kill(-pgid) is not Go
				found = append(found, Snippet{File: file, Line: line.number, Code: code})
			}
		case *ast.CompositeLit:
			found = append(found, Snippet{File: file, Line: line.number, Code: "_ = " + code})
		}
	}
	return found
}
