package redact

import (
	"bytes"
	"fmt"
	"slices"
)

// redacted is what a credential is replaced by, given the name of what found it.
const redacted = "[REDACTED:%s]"

// A Redactor removes credentials from bytes. [New] makes one; the zero value removes everything. It is safe for concurrent use.
type Redactor struct {
	patterns finder
	named    []string
}

// A finder finds credentials in a text.
type finder interface {
	find(text string) []span
}

// New returns a Redactor with the patterns of gitleaks. The error says that they could not be read, which no input can cause.
func New() (*Redactor, error) {
	patterns, err := newPatterns()
	if err != nil {
		return nil, fmt.Errorf("read the patterns of gitleaks: %w", err)
	}
	return &Redactor{patterns: patterns}, nil
}

// Bytes returns a copy of p without what looks like a credential, as the tail of a stalled command asks for. The p is not changed, need not be text, and may begin and
// end anywhere. Where a pattern itself fails, all of it is removed.
//
// The result is at most some times as long as p: a credential has a few bytes at least, and what replaces it a few dozen at most.
func (r *Redactor) Bytes(p []byte) (out []byte) {
	defer func() {
		if recover() != nil { // the output of a command must not end the host that looks at it
			out = fmt.Appendf(nil, redacted, "all")
		}
	}()
	text := string(p)
	return replace(p, slices.Concat(named(r.named, text), keys(text), r.patterns.find(text)))
}

// replace returns a copy of p with a word in place of each span, and one for those that overlap or touch.
func replace(p []byte, spans []span) []byte {
	var out bytes.Buffer
	at := 0
	for _, s := range merge(spans) {
		out.Write(p[at:s.start])
		fmt.Fprintf(&out, redacted, s.name)
		at = s.end
	}
	out.Write(p[at:])
	return out.Bytes()
}
