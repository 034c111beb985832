package doccheck

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"unicode"
)

var heading = regexp.MustCompile(`^#{1,6} +(.+?) *$`)

// hasAnchor reports whether a Markdown file has a heading that the anchor names, in the form of GitHub.
func (c *checker) hasAnchor(name, anchor string) bool {
	text, err := fs.ReadFile(c.tree, name)
	return err == nil && anchors(string(text))[anchor]
}

// anchors are those of the headings of a Markdown text. A heading that is there again gets a number.
func anchors(text string) map[string]bool {
	found, times, fence := map[string]bool{}, map[string]int{}, ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if language, ok := strings.CutPrefix(strings.TrimSpace(line), "```"); ok {
			fence = toggle(fence, language)
			continue
		}
		match := heading.FindStringSubmatch(line)
		if fence != "" || match == nil {
			continue
		}
		name := anchorOf(match[1])
		if n := times[name]; n > 0 {
			found[fmt.Sprintf("%s-%d", name, n)] = true
		} else {
			found[name] = true
		}
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
