package event

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Flaw says what keeps a text out of a column of limit characters, or nothing.
func Flaw(text string, limit int) string {
	if isPlain(text) && len(text) <= limit { // nearly always
		return ""
	}
	switch n := utf8.RuneCountInString(text); {
	case text == "":
		return "is empty"
	case strings.TrimSpace(text) == "":
		return fmt.Sprintf("%.24q is empty but for white space", text)
	case strings.ContainsFunc(text, unicode.IsControl):
		return fmt.Sprintf("%q has a control character", text)
	case !utf8.ValidString(text):
		return fmt.Sprintf("%q is not valid UTF-8", text)
	case n > limit:
		return fmt.Sprintf("%q… has %d characters, at most %d fit", string([]rune(text)[:min(limit, 24)]), n, limit)
	}
	return ""
}

func isPlain(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return false
		}
	}
	return text != ""
}
