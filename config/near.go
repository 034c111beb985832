package config

import "strings"

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

// distance counts the letters in which a name differs from ours, ignoring case and hyphens.
func distance(name, ours string) int {
	if tooLong := len(ours) + len(ours)/2; len(name) > tooLong {
		return tooLong
	}
	return edits(strings.ReplaceAll(strings.ToLower(name), "-", "_"), ours)
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
