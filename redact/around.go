package redact

import (
	"slices"
	"strings"
)

// around finds secrets by what stands around them: a name, a header, a flag, a URL. The patterns of gitleaks know what
// a secret looks like, so they miss a password that is a word.
func around(text string) []span {
	var found []span
	small := strings.ToLower(text)
	for _, f := range finders {
		if slices.ContainsFunc(f.words, func(word string) bool { return strings.Contains(small, word) }) {
			found = append(found, f.find(text)...)
		}
	}
	found = whole(text, found)
	return append(found, repeated(text, found)...)
}

// finders are what finds secrets, and the words without one of which it finds none: to look for those costs little.
var finders = []struct {
	find  func(string) []span
	words []string
}{
	{inURLs, []string{"://"}},
	{inHeaders, []string{"authorization", "cookie", "bearer", "basic"}},
	{inLongFlags, []string{"pass", "pwd", "secret", "token", "key"}},
	{inCommands, []string{" -", "\t-"}},
	{inAssignments, []string{"pass", "pw", "secret", "token", "key", "sig", "credential"}},
	{inStatements, []string{"identified", "password", "passphrase", "secret>", "token>", "apikey>"}},
}

// whole joins what the finders found, and continues what was longer than they look.
func whole(text string, found []span) []span {
	var all []span
	for _, s := range merge(found) {
		if s.end-s.start >= maxValue {
			s.end += endOf(text[s.end:], isSpace)
		}
		if last := len(all) - 1; last >= 0 && s.start <= all[last].end {
			all[last].end = max(all[last].end, s.end)
			continue
		}
		s.weak = true
		all = append(all, s)
	}
	return all
}

// repeated finds what was found in other places of the text, too. A short or simple secret is only removed where it was
// found: it can be a word of the text.
func repeated(text string, found []span) []span {
	secrets := map[string]string{}
	for _, s := range found {
		if secret := text[s.start:s.end]; len(secret) >= minRepeated && classes(secret) > 1 {
			secrets[secret] = s.name
		}
	}
	again := occurrences(text, secrets)
	for i := range again {
		again[i].weak = true
	}
	return again
}

// minRepeated is the length from which a secret is removed everywhere.
const minRepeated = 8
