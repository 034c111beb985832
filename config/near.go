package config

import "strings"

// maxTypos is how far a name of the host's may be from one of ours before it is taken for a mistake.
const maxTypos = 2

// near returns the candidate that a mistyped name was most likely meant to be, or nothing.
func near(name string, candidates []string) string {
	best, least := "", 0
	for _, candidate := range candidates {
		d := distance(name, candidate)
		if d <= len(candidate)/5+1 && (best == "" || d < least) {
			best, least = candidate, d
		}
	}
	return best
}

// distance counts the letters in which a name differs from one of ours, whatever its case and its hyphens.
func distance(name, ours string) int {
	if tooLong := len(ours) + len(ours)/2; len(name) > tooLong {
		return tooLong
	}
	return edits(strings.ReplaceAll(strings.ToLower(name), "-", "_"), ours)
}

// edits counts the letters to insert, delete or replace to make one word of the other.
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
