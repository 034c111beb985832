package redact

import (
	"encoding/base64"
	"regexp"
	"strings"
)

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
