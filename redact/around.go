package redact

import (
	"cmp"
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
)

// around finds secrets by what stands around them: a name, a header, a flag, a URL. The patterns of gitleaks know what
// a secret looks like, so they miss a password that is a word.
func around(text string) []span {
	var found []span
	small := strings.ToLower(text)
	for _, f := range finders {
		if slices.ContainsFunc(f.words, func(word string) bool { return strings.Contains(small, word) }) {
			found = append(found, f.find(text)...)
		}
	}
	found = whole(text, found)
	return append(found, repeated(text, found)...)
}

// finders are what finds secrets, and the words without one of which it finds none: to look for those costs little.
var finders = []struct {
	find  func(string) []span
	words []string
}{
	{inURLs, []string{"://"}},
	{inHeaders, []string{"authorization", "cookie", "bearer", "basic"}},
	{inLongFlags, []string{"pass", "pwd", "secret", "token", "key"}},
	{inCommands, []string{" -", "\t-"}},
	{inAssignments, []string{"pass", "pw", "secret", "token", "key", "sig", "credential"}},
	{inStatements, []string{"identified", "password", "passphrase", "secret>", "token>", "apikey>"}},
}

// whole joins what the finders found, and continues what was longer than they look.
func whole(text string, found []span) []span {
	var all []span
	for _, s := range merge(found) {
		if s.end-s.start >= maxValue {
			s.end += endOf(text[s.end:], isSpace)
		}
		if last := len(all) - 1; last >= 0 && s.start <= all[last].end {
			all[last].end = max(all[last].end, s.end)
			continue
		}
		s.weak = true
		all = append(all, s)
	}
	return all
}

// repeated finds what was found in other places of the text, too. A short or simple secret is only removed where it was
// found: it can be a word of the text.
func repeated(text string, found []span) []span {
	secrets := map[string]string{}
	for _, s := range found {
		if secret := text[s.start:s.end]; len(secret) >= minRepeated && classes(secret) > 1 {
			secrets[secret] = s.name
		}
	}
	again := occurrences(text, secrets)
	for i := range again {
		again[i].weak = true
	}
	return again
}

// minRepeated is the length from which a secret is removed everywhere.
const minRepeated = 8

// A span is where a text has a credential, and the name of what found it.
type span struct {
	start, end int
	name       string
	weak       bool // another span in the same place has the better name
}

// merge sorts the spans and joins those that overlap or touch, under the name of the first.
func merge(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int {
		return cmp.Or(a.start-b.start, b.end-a.end, a.rank()-b.rank(), strings.Compare(a.name, b.name))
	})
	var merged []span
	for _, s := range spans {
		if last := len(merged) - 1; last >= 0 && s.start <= merged[last].end {
			merged[last].end = max(merged[last].end, s.end)
		} else {
			merged = append(merged, s)
		}
	}
	return merged
}

func (s span) rank() int {
	if s.weak {
		return 1
	}
	return 0
}

// occurrences returns every place where a text has one of the secrets. The map's values are the names of what found
// them. It goes through the text once, however many secrets there are.
func occurrences(text string, secrets map[string]string) []span {
	shortest := len(text) + 1
	for secret := range secrets {
		shortest = min(shortest, len(secret))
	}
	beginnings := make(map[string][]string, len(secrets))
	for secret := range secrets {
		beginnings[secret[:shortest]] = append(beginnings[secret[:shortest]], secret)
	}
	var found []span
	for at := 0; at+shortest <= len(text); at++ {
		for _, secret := range beginnings[text[at:at+shortest]] {
			if strings.HasPrefix(text[at:], secret) {
				found = append(found, span{start: at, end: at + len(secret), name: secrets[secret]})
			}
		}
	}
	return found
}

// inURLs finds the password in scheme://user:password@host, with any scheme.
func inURLs(text string) []span {
	var found []span
	for at := 0; ; {
		i := strings.Index(text[at:], "://")
		if i < 0 {
			return found
		}
		at += i + len("://")
		end := at + endOf(text[at:], isURLEnd)
		if s, ok := userPassword(text, at, end); ok {
			found = append(found, s)
		}
		at = end
	}
}

func isURLEnd(c byte) bool { return isSpace(c) || isQuote(c) || strings.IndexByte("/?#<>\\", c) >= 0 }

// userPassword returns the password in the authority of a URL. A password may have an @ of its own. Where the text ends
// before the @, what follows the colon is a password unless it is a port.
func userPassword(text string, start, end int) (span, bool) {
	authority := text[start:end]
	last := strings.LastIndexByte(authority, '@')
	colon := strings.IndexByte(authority, ':')
	if last < 0 && end == len(text) && colon >= 0 && !isPort(authority[colon+1:]) {
		last = len(authority)
	}
	if colon < 0 || colon > last {
		return span{}, false
	}
	password := authority[colon+1 : last]
	if password == "" || isPlaceholder(password) {
		return span{}, false
	}
	return span{start: start + colon + 1, end: start + last, name: "url-password"}, true
}

// isPort reports whether a text can be the beginning of a port, or is an address of IPv6.
func isPort(text string) bool { return strings.Trim(text, "0123456789:abcdefABCDEF]") == "" }

var (
	authorization = regexp.MustCompile(`(?i)\b(?:proxy-)?authorization\\?["']?[ \t]{0,4}[:=][ \t]{0,4}\\?["']?`)
	cookie        = regexp.MustCompile(`(?i)\b(?:set-)?cookie2?\\?["']?[ \t]{0,4}:[ \t]{0,4}\[?\\?["']?`)
	cookieName    = regexp.MustCompile(`^[A-Za-z0-9_.$-]+$`)
	scheme        = regexp.MustCompile(`(?i)^(?:bearer|basic|token|apikey|digest|negotiate|ntlm|key)[ \t]{1,4}`)
	bearer        = regexp.MustCompile(`(?i)\b(bearer|basic)[ \t]{1,4}([A-Za-z0-9._~+/=-]{8,})`)
)

// inHeaders finds what is sent in the headers Authorization, Cookie and Set-Cookie, and what follows Bearer or Basic.
func inHeaders(text string) []span {
	var found []span
	skip := 0
	for _, at := range authorization.FindAllStringIndex(text, -1) {
		if at[0] < skip {
			continue
		}
		s, ok := authorized(text, at[1])
		if ok {
			found = append(found, s)
		}
		if s.end-s.start >= longValue {
			skip = s.end
		}
	}
	for _, at := range cookie.FindAllStringIndex(text, -1) {
		if s, ok := cookies(text, at[0], at[1]); ok {
			found = append(found, s)
		}
	}
	for _, at := range bearer.FindAllStringSubmatchIndex(text, -1) {
		credential := text[at[4]:at[5]]
		basic := strings.EqualFold(text[at[2]:at[3]], "basic")
		if basic && isUserAndPassword(credential) || !basic && isToken(credential) {
			found = append(found, span{start: at[4], end: at[5], name: "authorization"})
		}
	}
	return found
}

// authorized returns the credential of a header and whether it is one. Without a known scheme it has to look like one:
// the word authorization is also in prose.
func authorized(text string, at int) (span, bool) {
	line := text[at : at+endOf(head(text[at:]), isLineEnd)]
	named := scheme.FindString(line)
	value := line[len(named):]
	end := endOf(value, func(c byte) bool { return isSpace(c) || isQuote(c) || c == '\\' || c == ',' })
	if strings.EqualFold(strings.TrimSpace(named), "digest") { // a list of parameters, one of which is the secret
		end = len(strings.TrimRight(value, "'"))
	}
	credential, start := value[:end], at+len(named)
	secret := len(credential) >= minSecret && !isPlaceholder(credential) && (named != "" || looksSecret(credential))
	return span{start: start, end: start + end, name: "authorization"}, secret
}

// cookies returns the values of cookies: for Cookie all from the first to the end of the line or text, for Set-Cookie
// the one before the attributes.
func cookies(text string, name, at int) (span, bool) {
	isEnd := func(c byte) bool { return isLineEnd(c) || isQuote(c) || c == '\\' }
	line := text[at : at+endOf(head(text[at:]), isEnd)]
	first, value, found := strings.Cut(line, "=")
	if !found || !cookieName.MatchString(first) {
		return span{}, false
	}
	if strings.EqualFold(text[name:name+len("set-")], "set-") {
		value, _, _ = strings.Cut(value, ";")
	}
	value = strings.TrimRight(value, " \t")
	if value == "" || isPlaceholder(value) {
		return span{}, false
	}
	start := at + len(first) + 1
	return span{start: start, end: start + len(value), name: "cookie"}, true
}

// isToken reports whether a text can be a token, and not the next setting, as in token_type=bearer expires_in=3600.
func isToken(text string) bool {
	return looksSecret(text) && !strings.Contains(strings.TrimRight(text, "="), "=")
}

// isUserAndPassword reports whether a text is user:password in base64.
func isUserAndPassword(text string) bool {
	plain, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
	user, _, found := strings.Cut(string(plain), ":")
	printable := strings.IndexFunc(string(plain), func(r rune) bool { return r < ' ' || r == '\ufffd' }) < 0
	return err == nil && found && printable && user != ""
}
