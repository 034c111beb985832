package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// An Error is one error in a file or a variable. [Load] and [Parse] join the first twenty, and one that counts the
// others. Its text has the place, the key, the value and what is allowed.
type Error struct {
	// File and Line are the place in a file. Line is 0 for an error of the whole file.
	File string
	Line int
	// Variable is the environment variable that the value came from, if it did.
	Variable string
	// Key is the block and the name of the key, such as runtime_controls.warn_at, if the error is about a key.
	Key string
	// Value is the wrong value, shortened. For a command it only says which item is wrong: arguments can hold secrets.
	Value string
	// Problem says what is wrong and what is allowed.
	Problem string
	// Err is the cause, if there is one: an error of the YAML parser, or of [watchdog.Budget.Validate].
	Err error
}

// Error formats the error as one line.
func (e *Error) Error() string {
	where := position(e.File, e.Line)
	if e.Variable != "" {
		where = "environment " + e.Variable
	} else if e.Key != "" {
		where = strings.TrimPrefix(where+": ", ": ") + e.Key
	}
	return strings.TrimPrefix(where+": ", ": ") + strings.TrimSpace(e.Value+" "+e.Problem)
}

// Unwrap returns the cause, or nil.
func (e *Error) Unwrap() error { return e.Err }

// position formats a line of a file as editors and compilers do.
func position(file string, line int) string {
	switch {
	case line == 0:
		return file
	case file == "":
		return fmt.Sprintf("line %d", line)
	default:
		return fmt.Sprintf("%s:%d", file, line)
	}
}

// maxErrors is how many errors are listed. More are rarely read: they have one cause, such as a wrong file.
const maxErrors = 20

// join joins the first errors, and one that counts the others, at the place of the first of them.
func join(faults []*Error) error {
	var errs []error
	for i, fault := range faults {
		if i == maxErrors {
			problem := "here is 1 more error, which is not listed"
			if more := len(faults) - maxErrors; more > 1 {
				problem = fmt.Sprintf("here and after it are %d more errors, which are not listed", more)
			}
			errs = append(errs, &Error{File: fault.File, Line: fault.Line, Variable: fault.Variable, Problem: problem})
			break
		}
		errs = append(errs, fault)
	}
	return errors.Join(errs...)
}

const (
	maxShown  = 60  // how many characters of a wrong value an error shows
	maxReason = 120 // and of the message of a parser, which can contain a name of any length
)

func shorten(text string, limit int) string {
	if letters := []rune(text); len(letters) > limit {
		return string(letters[:limit]) + "…"
	}
	return text
}

// shown formats a text for an error: short, on one line, and quoted if it is unreadable otherwise.
func shown(text string, limit int) string {
	text = shorten(text, limit)
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

type when struct {
	is      bool
	problem string
}

func first(problems []when) string {
	for _, p := range problems {
		if p.is && p.problem != "" {
			return p.problem
		}
	}
	return ""
}

// shortName is the length up to which a name near ours is taken for the host's: state is near stall.
const shortName = 8

// maxTypos is the distance up to which a name is taken for a mistyped one of ours.
const maxTypos = 2

// closest returns the candidate that is nearest to a mistyped name, or "".
func closest(name string, candidates []string) string {
	best, least := "", 0
	for _, candidate := range candidates {
		d := distance(name, candidate)
		if d <= len(candidate)/5+1 && (best == "" || d < least) {
			best, least = candidate, d
		}
	}
	return best
}

// distance counts the letters in which a name differs from ours, apart from case and hyphens.
func distance(name, ours string) int {
	if tooLong := len(ours) + len(ours)/2; len(name) > tooLong {
		return tooLong
	}
	folded := fold(name)
	if missing := max(len(folded)-len(ours), len(ours)-len(folded)); missing > max(maxTypos, len(ours)/5+1) {
		return missing // it is not near, however many letters more it differs in
	}
	return edits(folded, ours)
}

// fold returns a name without what people write or overlook: capitals, hyphens, white space and invisible characters.
func fold(name string) string {
	return strings.ReplaceAll(strings.ToLower(visible(name)), "-", "_")
}

// visible returns a name without white space and characters that cannot be seen.
func visible(name string) string {
	return strings.Map(func(r rune) rune {
		if r > ' ' && r < unicode.MaxASCII {
			return r
		}
		if unicode.IsSpace(r) || unicode.In(r, unicode.Cf, unicode.Variation_Selector,
			unicode.Other_Default_Ignorable_Code_Point) {
			return -1
		}
		return r
	}, name)
}

// shownName formats a misspelt name for an error: quoted if a character of it cannot be seen.
func shownName(name string) string {
	if visible(name) != name {
		return strconv.QuoteToASCII(shorten(name, maxShown))
	}
	return shown(name, maxShown)
}

// edits counts the letters to insert, delete or replace to turn one word into the other.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

func words[T ~string](known []T) []string {
	words := make([]string, len(known))
	for i, word := range known {
		words[i] = string(word)
	}
	return words
}

// unknownWord says that a word is not known, and which one was likely meant. It returns "" for one that is.
func unknownWord(word, what string, known []string) string {
	if slices.Contains(known, word) {
		return ""
	}
	if meant := closest(word, known); meant != "" {
		return fmt.Sprintf("is not %s (did you mean %s?)", what, meant)
	}
	return "is not " + what
}
