package record

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxNote is how many characters of a note are kept, maxNoteBytes how much of it is read.
const (
	maxNote      = 200
	maxNoteBytes = 1 << 10
)

// Note is a short text of the host's, a note or a name, as events have it: at most 200 characters of its first KiB,
// control characters as spaces.
func Note(what string) string {
	kept := []rune(strings.ToValidUTF8(firstBytes(what, maxNoteBytes), "\uFFFD"))
	kept = kept[:min(len(kept), maxNote)]
	for i, r := range kept {
		if unicode.IsControl(r) {
			kept[i] = ' '
		}
	}
	return string(kept)
}

// firstBytes is at most the first n bytes of a text, without the part of a character that is cut there.
func firstBytes(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for cut := n; cut > n-utf8.UTFMax; cut-- {
		if utf8.RuneStart(text[cut]) {
			return text[:cut]
		}
	}
	return text[:n]
}
