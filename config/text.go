package config

import (
	"math"
	"regexp"
	"slices"
	"strconv"
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
	return first([]when{{true, v.unsupported}, {v.list, "is a list"}, {v.text == "", "is empty"}})
}

var (
	decimal    = formOf(`^[0-9]+(\.[0-9]+)?$`)
	numberLike = formOf(`^[-+]?\.?[0-9]`) // the start of what some reader of YAML takes for a number, a time or a date
	booleans   = []string{"true", "false", "yes", "no", "on", "off"}
	infinities = []string{".inf", "inf", "infinity", ".nan", "nan"}
	// ambiguousWords are the words that some readers of YAML take for a boolean or for null.
	ambiguousWords = append([]string{"y", "n", "null"}, booleans...)
)

// numberProblem returns why a value is not a number: digits, and perhaps a point and digits. All versions of YAML, JSON
// and people agree on these numbers; they disagree on hexadecimal and octal numbers, exponents, underscores and signs.
func numberProblem(v value) string {
	unsigned := strings.TrimLeft(v.text, "+-")
	word := strings.ToLower(unsigned)
	return first([]when{
		{v.quoted && v.unsupported == "", "is quoted; write the number without quotes"},
		{true, wordProblem(v)},
		{slices.Contains(booleans, word), "is a boolean"},
		{slices.Contains(infinities, word), "is not a finite number"},
		{!decimal().MatchString(unsigned), "is not a plain decimal number"},
		{strings.HasPrefix(v.text, "-"), "is negative"},
		{unsigned != v.text, "has a sign; write the digits only"},
		{len(v.text) > 1 && v.text[0] == '0' && v.text[1] != '.',
			"starts with a 0, which some read as octal; write the number without it"},
	})
}

// parseFixed returns a plain decimal number in units of so many decimals. The largest one means no limit in Go code.
func parseFixed(text string, digits int) (n int64, finer, tooLarge bool) {
	whole, decimals, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(whole+decimals+strings.Repeat("0", max(digits-len(decimals), 0)), 10, 64)
	return n, len(decimals) > digits, err != nil || n == math.MaxInt64
}

func wholeProblem(v value) string {
	return first([]when{{true, numberProblem(v)}, {strings.Contains(v.text, "."), "is not a whole number"}})
}

// textProblem returns why a value is not text to every reader of YAML. A variable is always text.
func textProblem(v value) string {
	if v.text == "" && v.quoted {
		return ""
	}
	word := strings.ToLower(v.text)
	ambiguous := word == "~" || numberLike().MatchString(word) || slices.Contains(ambiguousWords, word) ||
		slices.Contains(infinities, strings.TrimLeft(word, "+-"))
	return first([]when{
		{true, wordProblem(v)}, {v.line > 0 && !v.quoted && ambiguous, "is not a text to every reader; write it in quotes"},
	})
}

// unseenProblem returns what nobody would see of a text.
func unseenProblem(text string) string {
	return first([]when{
		{strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }), "has a character that cannot be seen"},
		{strings.TrimSpace(text) != text, "has white space around it"},
	})
}
