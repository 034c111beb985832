// Package probe reads what a probe of the stall sentinel printed: one JSON object. It returns an observation with a
// digest.
//
// [Capture] keeps a probe's output, and [Parse] reads it. [Read] returns an observation, or why the probe was blind.
//
// # The digest
//
// Every observation has a digest. If the probe printed a text as "digest", it is the hash of that text alone.
// Otherwise it is the hash of a canonical form of the whole object. This hash changes with a value at any depth. It
// does not change with the order of keys, with white space or with the spelling of a value:
//
//   - A string is its characters: "\u0041" equals "A".
//   - A number is its exact value: 1, 1.0 and 10e-1 are equal, and so are 0 and -0. No number is rounded.
//   - An array keeps its order. A key with the value null differs from a missing key.
//
// The two kinds of digest are never equal, because each is hashed with a prefix of its own.
//
// # Secrets
//
// No error of this package holds any part of what a probe printed or of the probe's command. The errors say what was
// wrong, and at which byte, field or index.
//
// The package runs no command and measures no time. Package internal/verdict decides what a series of observations
// means.
package probe

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/stall/internal/artifact"
)

// The limits of what a probe may print.
const (
	MaxOutput       = 64 << 10 // bytes, including white space
	MaxDepth        = 64       // nested objects and arrays, including the object itself
	MaxFingerprints = 32
	MaxFingerprint  = 200 // bytes
	MaxReasons      = 16
	MaxReason       = 200 // characters
)

// The errors of [Parse].
var (
	// ErrTooLong is for more than MaxOutput bytes.
	ErrTooLong = errors.New("the probe printed more than 64 KiB: have it print a digest of its state instead")
	// ErrNotText is for bytes that are not UTF-8, and for an escape that is half of a surrogate pair. encoding/json would
	// read different ones of them as the same character.
	ErrNotText = errors.New("the probe printed bytes or escapes that are not Unicode text")
	// ErrNotObject is for anything but exactly one JSON object.
	ErrNotObject = errors.New("the probe did not print exactly one JSON object")
	// ErrTooDeep is for objects and arrays that are nested more than MaxDepth deep.
	ErrTooDeep = errors.New("the probe nested values more than 64 deep")
	// ErrDuplicateKey is for an object, at any depth, that has a key twice. Nothing says which value counts.
	ErrDuplicateKey = errors.New("the probe printed an object that has a key twice")
	// ErrField is for a known field with a value that is not allowed.
	ErrField = errors.New("the probe printed a field with a wrong value")
)

// An Observation is what a probe saw.
type Observation struct {
	// Class is the probe's own judgement of the state, or empty.
	Class verdict.Class
	// Digest is 64 hexadecimal digits. Equal states have equal digests.
	Digest string
	// Fingerprints are short names of what is wrong, of the characters A-Z, a-z, 0-9 and ._:/@=+-, in the probe's order.
	Fingerprints []string
	// Reasons and Summary are for people. They may hold anything, even secrets and control characters.
	Reasons []string
	Summary string
}

// Parse reads what a probe printed. It knows the fields class, digest and summary (strings) and fingerprints and
// reasons (arrays of strings). A field that is missing, null or empty means the same. The case of names matters.
// Other keys are only part of the digest. Parse wraps the errors of this package.
//
// If the class is terminal, a field with another wrong value is no error: what is wrong in it is left out, because it
// must not hide that the command cannot succeed.
func Parse(output []byte) (Observation, error) {
	if len(output) > MaxOutput {
		return Observation{}, ErrTooLong
	}
	object, err := decode(output)
	if err != nil {
		return Observation{}, err
	}
	f := fields{object: object}
	class := f.class()
	f.lenient = class == verdict.ClassTerminal
	o := Observation{
		Class:        class,
		Fingerprints: f.list("fingerprints", MaxFingerprints, wrongFingerprint),
		Reasons:      f.list("reasons", MaxReasons, wrongReason),
		Summary:      f.text("summary"),
	}
	given := f.text("digest")
	if f.err != nil {
		return Observation{}, f.err
	}
	o.Digest = digestOf(object, given)
	return o, nil
}

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
	case !artifact.ValidFingerprint(text):
		return "has a character other than A-Z, a-z, 0-9 and . _ : / @ = + -"
	}
	return ""
}

func wrongReason(text string) string {
	if n := utf8.RuneCountInString(text); n > MaxReason {
		return fmt.Sprintf("has %d characters, at most %d are allowed", n, MaxReason)
	}
	return ""
}
