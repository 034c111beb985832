package redact

import "strings"

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
