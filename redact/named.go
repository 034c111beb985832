package redact

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// MinNamed is the fewest bytes that [Redactor.Also] takes for a secret: fewer stand everywhere.
const MinNamed = 4

// ErrShortSecret is wrapped by what [Redactor.Also] returns for a secret with fewer bytes than [MinNamed].
var ErrShortSecret = errors.New("short secret")

// Also returns a Redactor that removes these secrets too, exactly as they are and wherever they stand, such as the values of the command's environment that are
// none of anybody's business. An empty one is passed over, so that a variable that is not set needs no case of its own. The receiver stays as it is.
//
// Of a secret that was cut off by the beginning or the end of the bytes, what is left is removed, down to [MinNamed] bytes. It wraps [ErrShortSecret], and does
// not name the secret.
func (r *Redactor) Also(secrets ...string) (*Redactor, error) {
	all := slices.Clone(r.named)
	for i, secret := range secrets {
		switch {
		case secret == "":
		case len(secret) < MinNamed:
			return nil, fmt.Errorf("%w: number %d of %d has %d bytes; name only what has %d or more", ErrShortSecret, i+1, len(secrets), len(secret), MinNamed)
		default:
			all = append(all, secret)
		}
	}
	return &Redactor{patterns: r.patterns, named: all}, nil
}

// named finds the secrets that the host named, whole and at the edges.
func named(secrets []string, text string) []span {
	all := make(map[string]string, len(secrets))
	var found []span
	for _, secret := range secrets {
		all[secret] = "named"
		if n := overlap(secret, text); n > 0 {
			found = append(found, span{0, n, "named"})
		}
		if n := overlap(text, secret); n > 0 {
			found = append(found, span{len(text) - n, len(text), "named"})
		}
	}
	return append(found, occurrences(text, all)...)
}

// overlap is how many bytes, at least MinNamed, the end of one text and the beginning of another have in common.
func overlap(ends, begins string) int {
	for n := min(len(ends), len(begins)); n >= MinNamed; n-- {
		if strings.HasSuffix(ends, begins[:n]) {
			return n
		}
	}
	return 0
}
