package config

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// A form is what a text must look like. It is compiled when it is used first, because every program that imports the
// package would wait for all of them as it starts.
type form func() *regexp.Regexp

func formOf(pattern string) form {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

// wordProblem returns why a value is not a single text.
func wordProblem(v value) string {
	switch {
	case v.unsupported != "":
		return v.unsupported
	case v.list:
		return "is a list"
	case v.text == "":
		return "is empty"
	}
	return ""
}

var (
	decimal    = formOf(`^[0-9]+(\.[0-9]+)?$`)
	booleans   = []string{"true", "false", "yes", "no", "on", "off"}
	infinities = []string{".inf", "inf", "infinity", ".nan", "nan"}
)

// numberProblem returns why a value is not a number: digits, and perhaps a point and digits. All versions of YAML, JSON
// and people agree on these numbers; they disagree on hexadecimal and octal numbers, exponents, underscores and signs.
func numberProblem(v value) string {
	if v.quoted && v.unsupported == "" {
		return "is quoted; write the number without quotes"
	}
	if problem := wordProblem(v); problem != "" {
		return problem
	}
	unsigned := strings.TrimLeft(v.text, "+-")
	word := strings.ToLower(unsigned)
	switch {
	case slices.Contains(booleans, word):
		return "is a boolean"
	case slices.Contains(infinities, word):
		return "is not a finite number"
	case !decimal().MatchString(unsigned):
		return "is not a plain decimal number"
	case strings.HasPrefix(v.text, "-"):
		return "is negative"
	case unsigned != v.text:
		return "has a sign; write the digits only"
	case len(v.text) > 1 && v.text[0] == '0' && v.text[1] != '.':
		return "starts with a 0, which some read as octal; write the number without it"
	}
	return ""
}

// ambiguousWords are the words that some readers of YAML take for a boolean or for null.
var ambiguousWords = append([]string{"y", "n", "null"}, booleans...)

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

func wholeProblem(v value) string {
	problem := numberProblem(v)
	if problem == "" && strings.Contains(v.text, ".") {
		return "is not a whole number"
	}
	return problem
}
