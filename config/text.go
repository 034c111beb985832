package config

import (
	"slices"
	"strings"
	"unicode"
)

// numberLike matches the start of what some reader of YAML takes for a number, a time or a date.
var numberLike = formOf(`^[-+]?\.?[0-9]`)

// textProblem returns why a value is not text to every reader of YAML. A variable is always text.
func textProblem(v value) string {
	if v.text == "" && v.quoted {
		return ""
	}
	if problem := wordProblem(v); problem != "" {
		return problem
	}
	if v.line > 0 && !v.quoted && ambiguous(v.text) {
		return "is not a text to every reader; write it in quotes"
	}
	return ""
}

// unseenProblem returns what nobody would see of a text.
func unseenProblem(text string) string {
	switch {
	case strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "has a character that cannot be seen"
	case strings.TrimSpace(text) != text:
		return "has white space around it"
	}
	return ""
}

func ambiguous(text string) bool {
	word := strings.ToLower(text)
	return text == "~" || numberLike().MatchString(text) || slices.Contains(ambiguousWords, word) ||
		slices.Contains(infinities, strings.TrimLeft(word, "+-"))
}
