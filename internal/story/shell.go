package story

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line is the command for a person to copy into a shell, empty where there is none.
func (n Next) Line() string {
	words := make([]string, len(n.Command))
	for i, word := range n.Command {
		words[i] = ShellQuote(word)
	}
	return strings.Join(words, " ")
}

// inSingle writes what single quotes of a POSIX shell or of fish, to which a backslash in them means more, cannot have.
var inSingle = strings.NewReplacer("'", `'\''`, `\`, `'\\'`)

// ShellQuote quotes a word for a POSIX shell, zsh or fish. One with characters that cannot be seen is written with
// escapes, which bash, zsh and ksh read, so that what is copied is what was shown.
func ShellQuote(word string) string {
	switch {
	case word != "" && strings.IndexFunc(word, needsQuotes) < 0:
		return word
	case utf8.ValidString(word) && strings.IndexFunc(word, unseen) < 0:
		return "'" + inSingle.Replace(word) + "'"
	}
	var quoted strings.Builder
	for i, r := range word {
		if _, size := utf8.DecodeRuneInString(word[i:]); r == utf8.RuneError && size == 1 {
			fmt.Fprintf(&quoted, `\x%02x`, word[i])
			continue
		}
		quoted.WriteString(escape(r))
	}
	return "$'" + quoted.String() + "'"
}

func escape(r rune) string {
	switch {
	case r == '\'' || r == '\\':
		return `\` + string(r)
	case !unseen(r):
		return string(r)
	case r < utf8.RuneSelf:
		return fmt.Sprintf(`\x%02x`, r)
	case r > 0xffff:
		return fmt.Sprintf(`\U%08x`, r)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// needsQuotes reports whether a shell may take the character for more than itself, as zsh does =ls and fish %self.
func needsQuotes(r rune) bool {
	return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./:@+,", r)
}

// unseen reports whether a character cannot be seen, or looks like a space and is none.
func unseen(r rune) bool { return r != ' ' && (!unicode.IsGraphic(r) || unicode.IsSpace(r)) }
