package redact

import (
	"regexp"
	"strings"
)

// keyRule is gitleaks' name of its pattern for private keys.
const keyRule = "private-key"

// keyMark matches a line that begins or ends a private key, in a file or in a string literal.
var keyMark = regexp.MustCompile(`(?i)-----(BEGIN|END)[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----`)

// keys finds private keys, and the rest of those that were cut: up to an end without a beginning, and from a
// beginning without an end. A beginning counts only if nothing follows on its line, because a message can quote one.
// The pattern of gitleaks finds neither half, and takes a second beginning for the end of the first.
func keys(text string) []span {
	var found []span
	after, begin := 0, -1 // the end of the last whole key, and the beginning of an unfinished one
	until := func(end int) {
		if begin >= 0 && beginsKey(text[begin:end]) {
			found = append(found, span{start: begin, end: end, name: keyRule})
		}
	}
	for _, at := range keyMark.FindAllStringSubmatchIndex(text, -1) {
		switch ends := strings.EqualFold(text[at[2]:at[3]], "end"); {
		case !ends:
			begin = at[0]
		case begin < 0:
			found = append(found, span{start: after, end: at[1], name: keyRule})
		default:
			until(at[1])
			after, begin = at[1], -1
		}
	}
	until(len(text))
	return found
}

var lineEnd = regexp.MustCompile(`^(?:[ \t]*\r?(?:\n|$)|\\n|\\r)`)

func beginsKey(text string) bool {
	return lineEnd.MatchString(text[keyMark.FindStringIndex(text)[1]:])
}
