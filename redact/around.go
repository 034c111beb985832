package redact

// around finds secrets by what stands around them: a name, a header, a flag, a URL. The patterns of gitleaks know what
// a secret looks like, so they miss a password that is a word.
func around(text string) []span {
	var found []span
	for _, find := range []func(string) []span{inURLs, inHeaders, inFlags, inAssignments, inStatements} {
		found = append(found, find(text)...)
	}
	found = whole(text, found)
	return append(found, repeated(text, found)...)
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
