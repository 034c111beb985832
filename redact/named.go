package redact

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// MinNamed is the smallest size in bytes of a secret for [Redactor.Also]: shorter ones occur everywhere.
const MinNamed = 4

// ErrShortSecret is wrapped by [Redactor.Also] for a secret shorter than [MinNamed].
var ErrShortSecret = errors.New("short secret")

// Also returns a Redactor that also removes these secrets, wherever they stand and exactly as they are. They can be,
// for example, values of the command's environment. Also ignores empty secrets, so a variable that is not set needs
// no special case. The receiver stays as it is.
//
// If a secret was cut by the beginning or the end of the bytes, its rest is removed, down to [MinNamed] bytes.
//
// Also wraps [ErrShortSecret] if a secret is too short. The error does not contain the secret.
func (r *Redactor) Also(secrets ...string) (*Redactor, error) {
	all := slices.Clone(r.named)
	for i, secret := range secrets {
		switch {
		case secret == "":
		case len(secret) < MinNamed:
			return nil, fmt.Errorf("%w: number %d of %d has %d bytes; name only what has %d or more",
				ErrShortSecret, i+1, len(secrets), len(secret), MinNamed)
		default:
			all = append(all, secret)
		}
	}
	return &Redactor{patterns: r.patterns, named: all}, nil
}

// named finds the host's secrets, whole or cut at the edges of the text.
func named(secrets []string, text string) []span {
	all := make(map[string]string, len(secrets))
	var found []span
	for _, secret := range secrets {
		all[secret] = "named"
		if n := overlap(secret, text); n > 0 {
			found = append(found, span{end: n, name: "named"})
		}
		if n := overlap(text, secret); n > 0 {
			found = append(found, span{start: len(text) - n, end: len(text), name: "named"})
		}
	}
	return append(found, occurrences(text, all)...)
}

// overlap returns how many bytes the end of one text shares with the beginning of another, 0 if fewer than MinNamed.
func overlap(ends, begins string) int {
	for n := min(len(ends), len(begins)); n >= MinNamed; n-- {
		if strings.HasSuffix(ends, begins[:n]) {
			return n
		}
	}
	return 0
}
