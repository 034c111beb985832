// Package lines finds lines that match patterns in a stream that comes in pieces. It needs little memory, however long
// the lines are.
//
// A line ends at a newline, at a carriage return, with which programs write over a line on a terminal, or at both. The
// package knows nothing else about terminals, and nothing about encodings: a NUL is a byte like any other. It has no
// clock: its caller says when the start of a line is all that comes for now.
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
	returned bool   // the last byte was a carriage return: a newline after it ends no other line
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
		s.split(line, complete)
		p = rest
	}
}

// Open reports whether the stream is inside a line that was not matched.
func (s *Scanner) Open() bool { return len(s.part) > 0 && !s.matched && len(s.patterns) > 0 }

// Quiet matches the start of a line as if the line ended there, because nothing more comes, as after a prompt. If more
// comes after all, the line is matched again when it is complete.
func (s *Scanner) Quiet() {
	if s.Open() {
		s.match(s.part)
	}
}

// End matches the last line, which has no newline. After End the Scanner begins a new line.
func (s *Scanner) End() {
	if len(s.part) > 0 || s.matched {
		s.add(nil, true)
	}
	s.returned = false
}

var newline, carriageReturn = []byte{'\n'}, []byte{'\r'}

// split adds text without a newline, line by line. Complete says that a newline follows.
func (s *Scanner) split(text []byte, complete bool) {
	for {
		line, rest, found := bytes.Cut(text, carriageReturn)
		if !found {
			break
		}
		s.add(line, true)
		s.returned, text = true, rest
	}
	if len(text) > 0 {
		s.returned = false
	}
	if len(text) > 0 || complete && !s.returned {
		s.add(text, complete)
	}
	s.returned = s.returned && !complete
}

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
