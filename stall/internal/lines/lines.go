// Package lines looks for patterns in the lines of a stream that comes in pieces, in bounded memory.
//
// It knows no encodings and no terminals: a line ends at a newline, and carriage returns and NULs are bytes as others.
package lines

import (
	"bytes"
	"regexp"
)

// MaxLine is how much of a line is looked at, in bytes, as if it were all of it.
const MaxLine = 64 << 10

// A Scanner looks at one stream. It keeps at most [MaxLine] bytes, however long the lines are. Not safe for concurrent use.
type Scanner struct {
	patterns []pattern
	found    func(pattern int)
	part     []byte // the line that has not ended
	looked   bool   // that line has been looked at, and the rest of it is not
}

type pattern struct {
	index  int
	regexp *regexp.Regexp
}

// New returns a scanner that calls found with the index of a pattern, once for each, when a line matches it.
func New(patterns []*regexp.Regexp, found func(pattern int)) *Scanner {
	s := &Scanner{found: found}
	for i, p := range patterns {
		s.patterns = append(s.patterns, pattern{i, p})
	}
	return s
}

// Look takes the next piece, of which it keeps nothing but a copy of the end. A line is looked at when it is complete or [MaxLine] of it are there.
func (s *Scanner) Look(p []byte) {
	for len(p) > 0 && len(s.patterns) > 0 {
		line, rest, complete := bytes.Cut(p, newline)
		s.add(line, complete)
		p = rest
	}
}

// End looks at the last line, which has no newline. The scanner begins a new one after it.
func (s *Scanner) End() {
	if len(s.part) > 0 || s.looked {
		s.add(nil, true)
	}
}

var newline = []byte{'\n'}

// add appends to the line, and looks at it once it is complete or long enough.
func (s *Scanner) add(more []byte, complete bool) {
	if !s.looked {
		line := s.join(more, complete)
		if complete || len(line) == MaxLine {
			s.match(line)
			s.looked = true
		}
	}
	if complete {
		s.part, s.looked = s.part[:0], false
	}
}

// join returns the line as far as it is known and looked at, and keeps it if it goes on. A line that came in one piece is not copied.
func (s *Scanner) join(more []byte, complete bool) []byte {
	more = more[:min(len(more), MaxLine-len(s.part))]
	if len(s.part) == 0 && (complete || len(more) == MaxLine) {
		return more
	}
	if s.part == nil {
		s.part = make([]byte, 0, MaxLine)
	}
	s.part = append(s.part, more...)
	return s.part
}

// match looks for the patterns that were not found yet.
func (s *Scanner) match(line []byte) {
	left := s.patterns[:0]
	for _, p := range s.patterns {
		if p.regexp.Match(line) {
			s.found(p.index)
		} else {
			left = append(left, p)
		}
	}
	s.patterns = left
}
