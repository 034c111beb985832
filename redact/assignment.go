package redact

import (
	"regexp"
	"strings"
)

// assigned matches a name that a secret may be assigned to, and the sign between them. In a list such as
// ["--token", "..."] a comma is that sign.
var assigned = regexp.MustCompile(`(?i)(password|passwd|passphrase|passwort|pass|pwd|pw|client[_-]?secret|` +
	`secret[_-]?(?:access[_-]?)?key|secret|x-(?:amz|goog)-signature|signature|sig|` +
	`x-amz-security-token|[_-]?authtoken|token|(?:api|access|account|auth|encryption|license|master|private|shared|` +
	`sharedaccess|signing)[_-]?key|credentials?)(\\?["'\]])?([ \t]{0,4}(?:=>|:=|=|:)[ \t]{0,4})`)

// A name is where a secret may be assigned to.
type name struct {
	word    string // the last word, in small letters
	before  byte   // the byte before the word, or 0
	whole   string // all of the name
	newLine bool   // nothing is before the name on its line
	quoted  bool   // as in JSON
	opened  byte   // the quote before the name, or 0
	sign    string // between the name and the value
}

// inAssignments finds passwords, tokens and keys that have their name before them: in variables, JSON, YAML, queries of
// URLs and connection strings.
func inAssignments(text string) []span {
	var found []span
	skip := 0
	for _, at := range assigned.FindAllStringSubmatchIndex(text, -1) {
		n := nameAt(text, at)
		if at[0] < skip || !n.known() {
			continue
		}
		if n.closedBy(text, at[1]) {
			continue
		}
		start, end, quoted := valueAt(text, at[1], n.isEnd())
		if !quoted {
			end = n.trim(text, start, end)
		}
		if value := text[start:end]; n.holds(value, quoted) {
			found = append(found, span{start: start, end: end, name: n.rule()})
		}
		if end-start >= longValue {
			skip = end
		}
	}
	return found
}

func nameAt(text string, at []int) name {
	const longest = 64
	first := at[2]
	for first > 0 && at[2]-first < longest && isNameByte(text[first-1]) {
		first--
	}
	n := name{
		word: strings.ToLower(text[at[2]:at[3]]), whole: text[first:at[3]], quoted: at[4] >= 0,
		sign: strings.TrimSpace(text[at[6]:at[7]]), newLine: first == 0 || isLineEnd(text[first-1]),
	}
	if at[2] > 0 {
		n.before = text[at[2]-1]
	}
	if first > 0 && isQuote(text[first-1]) && !n.quoted {
		n.opened = text[first-1]
	}
	return n
}

func isNameByte(c byte) bool {
	return isLower(c) || isUpper(c) || isDigit(c) || c == '_' || c == '-' || c == '.'
}

// known reports whether the word is one by itself: pass is, compass is not.
func (n name) known() bool {
	switch n.word {
	case "pass", "pwd", "pw", "sig", "token", "signature":
		camel := len(n.word) < len(n.whole) && isUpper(n.whole[len(n.whole)-len(n.word)]) && isLower(n.before)
		return camel || !isLower(n.before) && !isUpper(n.before)
	}
	return true
}

// closedBy reports whether a text with the name ends where its value would begin, as in "PASSWORD=" + value.
func (n name) closedBy(text string, at int) bool {
	return n.opened != 0 && at < len(text) && text[at] == n.opened
}

// isVariable reports whether the name is that of an environment variable.
func (n name) isVariable() bool { return strings.ToUpper(n.whole) == n.whole && n.sign == "=" }

// isPassword reports whether the value is a password, which may be a word, and not a token, which has a form.
func (n name) isPassword() bool {
	switch n.word {
	case "pass", "password", "passwd", "passphrase", "passwort", "pwd", "pw":
		return true
	}
	return n.isVariable() && n.rule() != "signature"
}

func (n name) rule() string {
	switch {
	case strings.HasSuffix(n.word, "signature") || n.word == "sig":
		return "signature"
	case strings.HasPrefix(n.word, "pass") || strings.HasPrefix(n.word, "pw"):
		return "password"
	default:
		return "token"
	}
}

// isEnd returns what ends a value without quotes. In the environment only a space does.
func (n name) isEnd() func(byte) bool {
	if n.isVariable() {
		return func(c byte) bool { return isSpace(c) || isQuote(c) }
	}
	return func(c byte) bool { return isSpace(c) || isQuote(c) || strings.IndexByte("&;,<>\\", c) >= 0 }
}

// trim returns the end of a value without the punctuation after it. A line of the environment may have several words.
func (n name) trim(text string, start, end int) int {
	if n.newLine && n.isVariable() {
		if rest := text[start : start+endOf(text[start:], isLineEnd)]; wordsForm.MatchString(rest) {
			return start + len(rest)
		}
	}
	return start + len(withoutPunctuation(text[start:end]))
}

// holds reports whether a value is a secret, for this name.
func (n name) holds(value string, quoted bool) bool {
	switch {
	case len(value) < minSecret || isPlaceholder(value) || isPath(value) || strings.EqualFold(value, n.whole):
		return false
	case n.rule() == "signature":
		return looksSecret(value) && (len(value) >= 16 || n.before == '&' || n.before == '?' || n.word[0] == 'x')
	case !n.isPassword():
		return looksSecret(value)
	default:
		return n.holdsPassword(value, quoted)
	}
}

// holdsPassword reports whether a value, which may be a word, is a password.
func (n name) holdsPassword(value string, quoted bool) bool {
	switch {
	case isNumber(value): // of tests that pass, too
		return strings.HasPrefix(n.word, "passw")
	case n.isVariable() && (n.whole == "PWD" || n.whole == "OLDPWD"): // the working directory
		return false
	case n.sign == ":" && !quoted: // or the next word of a sentence
		return n.word != "pass" && plainSecret(value)
	}
	return true
}

// plainSecret reports whether a value after a colon is a password and not the next word of a sentence.
func plainSecret(value string) bool {
	return len(value) >= 6 && classes(value) > 1 && (hasDigit(value) || classes(value) > 2)
}

func isNumber(text string) bool { return strings.Trim(text, "0123456789.") == "" }

// statements match a password in the languages of other programs: SQL, .netrc and XML.
var statements = []*regexp.Regexp{
	regexp.MustCompile(`(?i)\b(?:identified by|(?:with|set|encrypted)[ \t]+password|password[ \t]*\()` +
		`[ \t]{0,4}'([^'\n]+)(?:'|\n|$)`),
	regexp.MustCompile(`(?i)\blogin[ \t]+\S+[ \t]+password[ \t]+(\S+)`),
	regexp.MustCompile(`(?i)<[a-z0-9_.:-]*(?:password|passphrase|secret|token|apikey)>([^<\n]+)</`),
}

func inStatements(text string) []span {
	var found []span
	for _, statement := range statements {
		for _, at := range statement.FindAllStringSubmatchIndex(text, -1) {
			if value := text[at[2]:at[3]]; len(value) >= minSecret && !isPlaceholder(value) {
				found = append(found, span{start: at[2], end: at[3], name: "password"})
			}
		}
	}
	return found
}
