package config

import (
	"slices"
	"strings"
)

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
