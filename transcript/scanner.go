package transcript

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxValue is the largest value that is kept. A larger one is skipped and counts as a line that is not known.
const maxValue = 128 << 20

var (
	errBroken  = errors.New("broken JSON")
	errTooLong = errors.New("a value is too long")
)

// A scanner takes the values of JSON apart without reading more than one of them into memory. It finds where a value
// ends; whether it is valid is for [encoding/json] to say.
type scanner struct {
	in    *bufio.Reader
	line  int    // the number of the line that is read, from 1
	fresh bool   // nothing but space was read of that line
	kept  []byte // the values that were kept since it was emptied
}

func newScanner(r io.Reader) *scanner {
	return &scanner{in: bufio.NewReaderSize(r, 64<<10), line: 1, fresh: true}
}

// next skips white space and returns the next byte without taking it.
func (s *scanner) next() (byte, error) {
	for {
		chunk, err := s.chunk()
		if err != nil {
			return 0, err
		}
		rest := bytes.TrimLeft(chunk, " \t\r\n")
		s.take(chunk[:len(chunk)-len(rest)])
		if len(rest) > 0 {
			return rest[0], nil
		}
	}
}

// value takes a value, and appends it to kept if it is wanted.
func (s *scanner) value(keep bool) error {
	if _, err := s.next(); err != nil {
		return err
	}
	var end ending
	start := len(s.kept)
	for !end.found {
		chunk, err := s.chunk()
		if errors.Is(err, io.EOF) && end.plain {
			break // a number that the end of the file ends
		}
		if err != nil {
			return err
		}
		n := end.in(chunk)
		if keep && len(s.kept) <= maxValue {
			s.kept = append(s.kept, chunk[:n]...)
		}
		s.take(chunk[:n])
		if end.broken {
			return errBroken
		}
	}
	if len(s.kept) > maxValue {
		s.kept = s.kept[:start]
		return errTooLong
	}
	return nil
}

// recover goes on with the next line, or with this one if a value broke off before it.
func (s *scanner) recover() error {
	for first := true; !s.fresh || first; first = false {
		if s.fresh {
			if b, err := s.next(); err != nil || b == '{' || b == '[' {
				return err
			}
		}
		chunk, err := s.chunk()
		if err != nil {
			return err
		}
		n := bytes.IndexByte(chunk, '\n') + 1
		if n == 0 {
			n = len(chunk)
		}
		s.take(chunk[:n])
	}
	return nil
}

// chunk returns what is there to read, at least a byte.
func (s *scanner) chunk() ([]byte, error) {
	if _, err := s.in.Peek(1); err != nil {
		return nil, err
	}
	return s.in.Peek(s.in.Buffered())
}

// take takes bytes that chunk returned.
func (s *scanner) take(taken []byte) {
	s.line += bytes.Count(taken, []byte{'\n'})
	last := taken
	if end := bytes.LastIndexByte(taken, '\n'); end >= 0 {
		s.fresh, last = true, taken[end+1:]
	}
	s.fresh = s.fresh && len(bytes.TrimLeft(last, " \t\r")) == 0
	_, _ = s.in.Discard(len(taken)) // they are in the buffer
}

// An ending looks for the end of a value.
type ending struct {
	depth         int
	text, escaped bool // in a string, behind a backslash in one
	plain         bool // in a number or a word
	found, broken bool
}

// in returns how many of the next bytes belong to the value.
func (e *ending) in(chunk []byte) int {
	for i := 0; i < len(chunk); i++ {
		if e.text && !e.escaped {
			i += plainText(chunk[i : len(chunk)-1]) // most of a file
		}
		switch b := chunk[i]; {
		case e.text:
			e.inText(b)
		case e.plain || e.depth == 0 && bytes.IndexByte([]byte(`{["`), b) < 0:
			if bytes.IndexByte([]byte(" \t\r\n,:]}[{\""), b) >= 0 {
				e.found, e.broken = e.plain, !e.plain
				return i
			}
			e.plain = true
		default:
			e.inValue(b)
		}
		if e.found || e.broken {
			return i + 1
		}
	}
	return len(chunk)
}

// plainText returns how many bytes of a string stand for themselves.
func plainText(chunk []byte) (n int) {
	for n < len(chunk) && chunk[n] >= ' ' && chunk[n] != '"' && chunk[n] != '\\' {
		n++
	}
	return n
}

// inValue takes a byte of a string's beginning, an object or a list.
func (e *ending) inValue(b byte) {
	switch b {
	case '"':
		e.text = true
	case '{', '[':
		e.depth++
	case '}', ']':
		e.depth--
		e.found = e.depth == 0
	}
}

func (e *ending) inText(b byte) {
	switch {
	case e.escaped:
		e.escaped = false
	case b == '\\':
		e.escaped = true
	case b == '"':
		e.text, e.found = false, e.depth == 0
	case b == '\n':
		e.broken = true // a line that was cut off
	}
}

// keep takes the next byte, which next returned, and appends it to kept.
func (s *scanner) keep(b byte) {
	s.kept = append(s.kept, b)
	s.take(s.kept[len(s.kept)-1:])
}
