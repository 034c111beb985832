package redact

import (
	"bytes"
	"fmt"
	"slices"
)

// redacted is the format of the text that replaces a credential, with the name of what found it.
const redacted = "[REDACTED:%s]"

// A Redactor removes credentials from bytes. [New] makes one; the zero value removes everything. It is safe for
// concurrent use.
type Redactor struct {
	patterns finder
	named    []string
}

// A finder finds credentials in a text.
type finder interface {
	find(text string) []span
}

// New returns a Redactor with the patterns of gitleaks. It fails only if those patterns cannot be read, which does not
// depend on any input.
func New() (*Redactor, error) {
	patterns, err := newPatterns()
	if err != nil {
		return nil, fmt.Errorf("read the patterns of gitleaks: %w", err)
	}
	return &Redactor{patterns: patterns}, nil
}

// Bytes returns a copy of p without what looks like a credential. It has the signature that the tail of a stalled
// command needs. It does not change p, which can be any bytes and can begin and end anywhere. If a pattern itself
// fails, Bytes removes everything.
//
// The result can be a few times as long as p: a credential has at least a few bytes, its replacement at most a few
// dozen.
func (r *Redactor) Bytes(p []byte) (out []byte) {
	defer func() {
		if recover() != nil { // a command's output must not end the host
			out = fmt.Appendf(nil, redacted, "all")
		}
	}()
	text := string(p)
	return replace(p, slices.Concat(named(r.named, text), keys(text), r.patterns.find(text), around(text)))
}

// replace returns a copy of p with a replacement for each span. Spans that overlap or touch get one replacement.
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
