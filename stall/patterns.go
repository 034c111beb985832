package stall

import (
	"bytes"
	"regexp"
	"slices"
	"sync"
	"time"
)

const (
	// maxLine is how many bytes of a line are matched. The rest of a longer line is ignored.
	maxLine = 64 << 10
	// quietMoment is after how long without output the start of a line is matched like a whole one: a prompt has no
	// newline.
	quietMoment = 500 * time.Millisecond
)

// A matcher finds lines that match patterns in one output. It needs little memory, however long the lines are: at most
// maxLine bytes. It is safe for concurrent use.
//
// A line ends at a newline, at a carriage return, with which programs write over a line on a terminal, or at both. The
// matcher knows nothing else about terminals, and nothing about encodings: a NUL is a byte like any other.
type matcher struct {
	mu       sync.Mutex
	patterns []*regexp.Regexp // nil for those that were found
	left     int              // how many were not
	found    func(pattern int)
	part     []byte      // the start of the current line
	matched  bool        // the current line was matched already, and the rest of it is ignored
	returned bool        // the last byte was a carriage return: a newline after it ends no other line
	quiet    *time.Timer // runs inside a line; nil before the first one
}

// newMatcher returns a matcher that calls found with the index of a pattern when a line matches it, once for each.
func newMatcher(patterns []*regexp.Regexp, found func(pattern int)) *matcher {
	return &matcher{patterns: slices.Clone(patterns), left: len(patterns), found: found}
}

// look takes the next piece of output, and does not keep it. It matches a line when the line is complete or has maxLine
// bytes.
func (m *matcher) look(p []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(p) > 0 && m.left > 0 {
		line, rest, complete := bytes.Cut(p, newline)
		m.split(line, complete)
		p = rest
	}
	switch {
	case !m.open() && m.quiet != nil:
		m.quiet.Stop()
	case m.open() && m.quiet == nil:
		m.quiet = time.AfterFunc(quietMoment, m.matchStart)
	case m.open():
		m.quiet.Reset(quietMoment)
	}
}

// open reports whether the output is inside a line that was not matched.
func (m *matcher) open() bool { return len(m.part) > 0 && !m.matched && m.left > 0 }

// matchStart matches the start of a line as if the line ended there, because nothing more comes. If more comes after
// all, the line is matched again when it is complete.
func (m *matcher) matchStart() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open() {
		m.match(m.part)
	}
}

// end matches the last line, which has no newline.
func (m *matcher) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.quiet != nil {
		m.quiet.Stop()
	}
	if len(m.part) > 0 {
		m.add(nil, true)
	}
}

var newline, carriageReturn = []byte{'\n'}, []byte{'\r'}

// split adds text without a newline, line by line. Complete says that a newline follows.
func (m *matcher) split(text []byte, complete bool) {
	for {
		line, rest, found := bytes.Cut(text, carriageReturn)
		if !found {
			break
		}
		m.add(line, true)
		m.returned, text = true, rest
	}
	if len(text) > 0 {
		m.returned = false
	}
	if len(text) > 0 || complete && !m.returned {
		m.add(text, complete)
	}
	m.returned = m.returned && !complete
}

// add adds to the current line, and matches it once it is complete or long enough.
func (m *matcher) add(more []byte, complete bool) {
	if !m.matched {
		line := m.join(more, complete)
		if complete || len(line) == maxLine {
			m.match(line)
			m.matched = true
		}
	}
	if complete {
		m.part, m.matched = m.part[:0], false
	}
}

// join returns the current line, at most maxLine bytes of it, and keeps it if it goes on. It does not copy a line that
// came in one piece.
func (m *matcher) join(more []byte, complete bool) []byte {
	more = more[:min(len(more), maxLine-len(m.part))]
	if len(m.part) == 0 && (complete || len(more) == maxLine) {
		return more
	}
	if m.part == nil {
		m.part = make([]byte, 0, maxLine)
	}
	m.part = append(m.part, more...)
	return m.part
}

// match reports the patterns that match the line and were not found before.
func (m *matcher) match(line []byte) {
	for i, p := range m.patterns {
		if p != nil && p.Match(line) {
			m.patterns[i] = nil
			m.left--
			m.found(i)
		}
	}
}
