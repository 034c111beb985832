package redact

import (
	"cmp"
	"slices"
	"strings"
)

// A span is where a text has a credential, and the name of what found it.
type span struct {
	start, end int
	name       string
	weak       bool // another span in the same place has the better name
}

// merge sorts the spans and joins those that overlap or touch, under the name of the first.
func merge(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int {
		return cmp.Or(a.start-b.start, b.end-a.end, a.rank()-b.rank(), strings.Compare(a.name, b.name))
	})
	var merged []span
	for _, s := range spans {
		if last := len(merged) - 1; last >= 0 && s.start <= merged[last].end {
			merged[last].end = max(merged[last].end, s.end)
		} else {
			merged = append(merged, s)
		}
	}
	return merged
}

func (s span) rank() int {
	if s.weak {
		return 1
	}
	return 0
}

// occurrences returns every place where a text has one of the secrets. The map's values are the names of what found
// them. It goes through the text once, however many secrets there are.
func occurrences(text string, secrets map[string]string) []span {
	shortest := len(text) + 1
	for secret := range secrets {
		shortest = min(shortest, len(secret))
	}
	beginnings := make(map[string][]string, len(secrets))
	for secret := range secrets {
		beginnings[secret[:shortest]] = append(beginnings[secret[:shortest]], secret)
	}
	var found []span
	for at := 0; at+shortest <= len(text); at++ {
		for _, secret := range beginnings[text[at:at+shortest]] {
			if strings.HasPrefix(text[at:], secret) {
				found = append(found, span{start: at, end: at + len(secret), name: secrets[secret]})
			}
		}
	}
	return found
}
