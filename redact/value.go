package redact

import (
	"regexp"
	"strings"
)

// minSecret is the length from which a value is taken for a secret.
const minSecret = 3

// maxValue is how far a finder looks for the end of a value, so that a text of names alone is not read again for each
// of them.
const maxValue = 2048

// endOf returns the index of the first byte that ends a value, or the length of the text.
func endOf(text string, isEnd func(byte) bool) int {
	for i := range len(text) {
		if isEnd(text[i]) {
			return i
		}
	}
	return len(text)
}

// head returns the beginning of a text, as far as a finder looks.
func head(text string) string { return text[:min(len(text), maxValue)] }

func isSpace(c byte) bool   { return c <= ' ' }
func isQuote(c byte) bool   { return c == '"' || c == '\'' || c == '`' }
func isLineEnd(c byte) bool { return c == '\n' || c == '\r' || c == 0 }

// valueAt returns where a value is that begins at a place of the text: in quotes up to the closing one, otherwise up to
// what ends it. It reports whether the value is quoted. A quote may be escaped, as in JSON within a text.
func valueAt(text string, at int, isEnd func(byte) bool) (start, end int, quoted bool) {
	quote := at
	escaped := strings.HasPrefix(text[at:], `\"`) || strings.HasPrefix(text[at:], `\'`)
	if escaped {
		quote++
	}
	if quote >= len(text) || !isQuote(text[quote]) {
		return at, at + endOf(head(text[at:]), isEnd), false
	}
	start = quote + 1
	return start, start + closing(head(text[start:]), text[quote], escaped), true
}

// closing returns where a quoted text ends: at the closing quote, or at the end of the line.
func closing(text string, quote byte, escaped bool) int {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case isLineEnd(c) || c == quote:
			return i
		case c == '\\' && escaped && i+1 < len(text) && text[i+1] == quote:
			return i
		case c == '\\' && !escaped:
			i++
		}
	}
	return len(text)
}

var (
	// redactedForm is what a redactor has put in place of a secret.
	redactedForm = regexp.MustCompile(`^\[REDACTED:[a-z0-9-]+\]$`)
	// variableForm is the use of a variable, a template or a placeholder in place of a secret.
	variableForm = regexp.MustCompile(`^(?:\$[A-Z_][A-Z0-9_]*|` +
		`\$[a-z_]*(?:pass|pw|secret|token|key)[a-z_]*|\$[({].*|%[#+]?[a-zA-Z]|` +
		`%\(.*|%[A-Z_]+%|<.*|\{\{.*|\{[A-Za-z_.]*\}?|\[[A-Z_a-z ]+\]|&?\(?nil\)?|@[A-Z_]+@|` +
		`(?:os|process|env|config|cfg|self|settings|args|opts|secrets|vars|var|req|this|ctx)\.[\w.\["'(\]]*|` +
		`[\w.]+\(.*|[\w.]+\[[\w+:-]*\]?)$`)
	pathForm = regexp.MustCompile(`^(?:~|\.{1,2})?/(?:(?:etc|run|var|home|usr|tmp|opt|` +
		`secrets|mnt|root|dev|proc|app|srv)(?:/|$)|` +
		`[\w.-]+/[\w.-]+(?:/[\w.-]+)*$)|^(?:[A-Za-z]:\\|file:)`)
	datedForm = regexp.MustCompile(`^\d{4}-\d\d-\d\d(?:[T ]|$)|^v?\d+\.\d+(?:\.\d+)?(?:[-+.]|$)|^0x[0-9a-fA-F]+$|` +
		`^[0-9.]+(?:ns|us|ms|s|m|h|[kKMG]i?B?)$`)
	wordsForm = regexp.MustCompile(`^[a-z]+(?: [a-z]+)+$`)
)

// noSecrets are words that stand in place of a secret.
var noSecrets = map[string]bool{}

func init() {
	for word := range strings.FieldsSeq(`yes no on off set unset true false null none nil undefined empty required
		optional incorrect invalid disabled enabled expired missing unchanged prompt redacted hidden masked omitted unknown
		string str bool int text password passwd passphrase secret token wrong ok failed denied default bytes object`) {
		noSecrets[word] = true
	}
}

// longValue is the length from which a value that is no secret is not searched for names within it.
const longValue = 256

// withoutPunctuation returns a value without what follows it in a sentence or a list. It leaves what a redactor wrote.
func withoutPunctuation(value string) string {
	if value = strings.TrimRight(value, ";,)"); strings.HasPrefix(value, "[") {
		return value
	}
	return strings.TrimRight(value, ";,)}]")
}

// isPlaceholder reports whether a value only stands for a secret: a variable, stars, a word such as none, or what a
// redactor left.
func isPlaceholder(value string) bool {
	return len(value) <= longValue && (strings.Trim(value, "*•.xX_- ") == "" || redactedForm.MatchString(value) ||
		variableForm.MatchString(value) ||
		noSecrets[strings.ToLower(strings.TrimRight(value, ".,;:!)"))])
}

// looksSecret reports whether a value looks like a secret by itself: of some length, with letters and digits, and not a
// path, a date, a version, a number or a length of time. It is for names that have other values, too.
func looksSecret(value string) bool {
	return len(value) >= 8 && classes(value) > 1 && !isPlaceholder(value) && !isPath(value) &&
		!datedForm.MatchString(value[:min(len(value), longValue)]) && !strings.Contains(value, "://") &&
		(hasDigit(value) || len(value) >= 20 && mixed(value))
}

func isPath(value string) bool { return len(value) <= longValue && pathForm.MatchString(value) }

func hasDigit(text string) bool { return strings.ContainsAny(text, "0123456789") }

// mixed reports whether a text changes often between capitals and small letters, which names do not.
func mixed(text string) bool {
	changes := 0
	for i := 1; i < len(text); i++ {
		if isUpper(text[i]) != isUpper(text[i-1]) {
			changes++
		}
	}
	return changes > len(text)/3
}

func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }
func isLower(c byte) bool { return c >= 'a' && c <= 'z' }
func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// classes counts the kinds of characters in a text: small letters, capitals, digits and others.
func classes(text string) int {
	var lower, upper, digit, other int
	for i := range len(text) {
		switch c := text[i]; {
		case isLower(c):
			lower = 1
		case isUpper(c):
			upper = 1
		case isDigit(c):
			digit = 1
		default:
			other = 1
		}
	}
	return lower + upper + digit + other
}
