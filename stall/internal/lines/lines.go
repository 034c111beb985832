// Package lines finds lines that match patterns in a stream that comes in pieces. It needs little memory, however long
// the lines are.
//
// It knows nothing about encodings and terminals: a line ends at a newline, and a carriage return or a NUL is a byte
// like any other.
package lines

import (
	"bytes"
	"regexp"
)

// MaxLine is how many bytes of a line are matched. The rest of a longer line is ignored.
const MaxLine = 64 << 10

// A Scanner matches the lines of one stream. It keeps at most [MaxLine] bytes. It is not safe for concurrent use.
type Scanner struct {
	patterns []pattern
	found    func(pattern int)
	part     []byte // the start of the current line
	matched  bool   // the current line was matched already, and the rest of it is ignored
}

type pattern struct {
	index  int
	regexp *regexp.Regexp
}

// New returns a Scanner. It calls found with the index of a pattern when a line matches it, once for each pattern.
func New(patterns []*regexp.Regexp, found func(pattern int)) *Scanner {
	s := &Scanner{found: found}
	for i, p := range patterns {
		s.patterns = append(s.patterns, pattern{i, p})
	}
	return s
}

// Look takes the next piece of the stream. It does not keep p. It matches a line when the line is complete or has
// [MaxLine] bytes.
func (s *Scanner) Look(p []byte) {
	for len(p) > 0 && len(s.patterns) > 0 {
		line, rest, complete := bytes.Cut(p, newline)
		s.add(line, complete)
		p = rest
	}
}

// End matches the last line, which has no newline. After End the Scanner begins a new line.
func (s *Scanner) End() {
	if len(s.part) > 0 || s.matched {
		s.add(nil, true)
	}
}

var newline = []byte{'\n'}

// add adds to the current line, and matches it once it is complete or long enough.
func (s *Scanner) add(more []byte, complete bool) {
	if !s.matched {
		line := s.join(more, complete)
		if complete || len(line) == MaxLine {
			s.match(line)
			s.matched = true
		}
	}
	if complete {
		s.part, s.matched = s.part[:0], false
	}
}

// join returns the current line, at most MaxLine bytes of it, and keeps it if it goes on. It does not copy a line
// that came in one piece.
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

// match reports the patterns that match the line and were not found before.
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
