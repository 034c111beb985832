package probe

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// fields reads the known fields of an object and keeps the first error. After an error the values mean nothing.
type fields struct {
	object map[string]any
	err    error
	// lenient leaves out what is wrong instead of keeping an error.
	lenient bool
}

func (f *fields) class() verdict.Class {
	class := verdict.Class(f.text("class"))
	known := []verdict.Class{"", verdict.ClassProgressing, verdict.ClassStalled, verdict.ClassTerminal}
	if !slices.Contains(known, class) {
		f.wrong("class is none of progressing, stalled and terminal")
	}
	return class
}

// text returns the string of a field, or an empty text if it is missing or null.
func (f *fields) text(name string) string {
	value := f.object[name]
	if value == nil {
		return ""
	}
	text, ok := value.(string)
	if !ok {
		f.wrong(name + " is not a string")
	}
	return text
}

// list returns the strings of a field, or nil if it is missing or null. The check says what is wrong with a string,
// without quoting it.
func (f *fields) list(name string, most int, check func(string) string) []string {
	value := f.object[name]
	if value == nil {
		return nil
	}
	items, ok := value.([]any)
	if !ok {
		f.wrong(name + " is not an array")
		return nil
	}
	if len(items) > most {
		f.wrong(fmt.Sprintf("%s has %d elements, at most %d are allowed", name, len(items), most))
		items = items[:most]
	}
	var texts []string
	for i, item := range items {
		text, ok := item.(string)
		switch wrong := check(text); {
		case !ok:
			f.wrong(fmt.Sprintf("%s[%d] is not a string", name, i))
		case wrong != "":
			f.wrong(fmt.Sprintf("%s[%d] %s", name, i, wrong))
		default:
			texts = append(texts, text)
		}
	}
	return texts
}

func (f *fields) wrong(what string) {
	if f.err == nil && !f.lenient {
		f.err = fmt.Errorf("%w: %s", ErrField, what)
	}
}

func wrongFingerprint(text string) string {
	switch {
	case text == "":
		return "is empty"
	case len(text) > MaxFingerprint:
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(text), MaxFingerprint)
	case strings.ContainsFunc(text, notAllowed):
		return "has a character other than A-Z, a-z, 0-9 and . _ : / @ = + -"
	}
	return ""
}

// notAllowed reports whether a fingerprint must not contain the character.
func notAllowed(r rune) bool {
	switch {
	case 'A' <= r && r <= 'Z', 'a' <= r && r <= 'z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune("._:/@=+-", r)
}

func wrongReason(text string) string {
	if n := utf8.RuneCountInString(text); n > MaxReason {
		return fmt.Sprintf("has %d characters, at most %d are allowed", n, MaxReason)
	}
	return ""
}
