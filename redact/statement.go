package redact

import "regexp"

// statements match a password in the languages of other programs: SQL, .netrc and XML.
var statements = []*regexp.Regexp{
	regexp.MustCompile(`(?i)\b(?:identified by|(?:with|set|encrypted)[ \t]+password|password[ \t]*\()` +
		`[ \t]{0,4}'([^'\n]+)(?:'|\n|$)`),
	regexp.MustCompile(`(?i)\blogin[ \t]+\S+[ \t]+password[ \t]+(\S+)`),
	regexp.MustCompile(`(?i)<[a-z0-9_.:-]*(?:password|passphrase|secret|token|apikey)>([^<\n]+)</`),
}

func inStatements(text string) []span {
	var found []span
	for _, statement := range statements {
		for _, at := range statement.FindAllStringSubmatchIndex(text, -1) {
			if value := text[at[2]:at[3]]; len(value) >= minSecret && !isPlaceholder(value) {
				found = append(found, span{start: at[2], end: at[3], name: "password"})
			}
		}
	}
	return found
}
