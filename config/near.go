package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

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
