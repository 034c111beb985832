package redact

import (
	"regexp"
	"strings"
)

// keyRule is what gitleaks calls its pattern for private keys.
const keyRule = "private-key"

// keyMark is a line that begins or ends a private key, as it stands in a file or in a string of one line.
var keyMark = regexp.MustCompile(`(?i)-----(BEGIN|END)[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----`)

// keys finds private keys, and what is left of those that were cut: up to an end without a beginning, and from a beginning without an end. A
// beginning counts only where its line ends with it: a message may quote it. The pattern of gitleaks finds neither half, and takes a second beginning for
// the end of the first.
func keys(text string) []span {
	var found []span
	after, begin := 0, -1 // where the last whole key ended, and where the one begins that has not
	until := func(end int) {
		if begin >= 0 && beginsKey(text[begin:end]) {
			found = append(found, span{begin, end, keyRule})
		}
	}
	for _, at := range keyMark.FindAllStringSubmatchIndex(text, -1) {
		switch ends := strings.EqualFold(text[at[2]:at[3]], "end"); {
		case !ends:
			begin = at[0]
		case begin < 0:
			found = append(found, span{after, at[1], keyRule})
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
