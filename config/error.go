package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// An Error is one thing wrong in a file or in a variable, as [Load] and [Parse] return it, several of them joined. Its
// text names the place, the key, the value and what is allowed.
type Error struct {
	// File and Line say where in a file. Line is 0 when the error is about the file as a whole.
	File string
	Line int
	// Variable names the environment variable, when the value came from one.
	Variable string
	// Key is the block and the name of the key, such as runtime_controls.warn_at. It is empty when the error is not about one.
	Key string
	// Value is what was written, shortened when it is long. Of a command it is at most which item is wrong: arguments can hold secrets.
	Value string
	// Problem says what is wrong and what is allowed.
	Problem string
	// Err is the cause, if there is one: of the YAML parser, or of [watchdog.Budget.Validate].
	Err error
}

// Error puts the parts into one line.
func (e *Error) Error() string {
	var parts []string
	if e.Variable != "" {
		parts = append(parts, "environment "+e.Variable)
	} else {
		if where := place(e.File, e.Line); where != "" {
			parts = append(parts, where)
		}
		if e.Key != "" {
			parts = append(parts, e.Key)
		}
	}
	return strings.Join(append(parts, strings.TrimSpace(e.Value+" "+e.Problem)), ": ")
}

// Unwrap returns the cause, or nil.
func (e *Error) Unwrap() error { return e.Err }

// place names a line of a file as editors and compilers do.
func place(file string, line int) string {
	switch {
	case line == 0:
		return file
	case file == "":
		return fmt.Sprintf("line %d", line)
	default:
		return fmt.Sprintf("%s:%d", file, line)
	}
}

func join(faults []*Error) error {
	errs := make([]error, len(faults))
	for i, fault := range faults {
		errs[i] = fault
	}
	return errors.Join(errs...)
}

// maxShown is how many characters of a wrong value an error repeats.
const maxShown = 60

func shorten(text string, limit int) string {
	if letters := []rune(text); len(letters) > limit {
		return string(letters[:limit]) + "…"
	}
	return text
}

// shown is a text as an error repeats it: short, on one line, and quoted when it would be unreadable otherwise.
func shown(text string, limit int) string {
	text = shorten(text, limit)
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}
