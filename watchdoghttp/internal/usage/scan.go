package usage

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// A scanner goes through JSON of any size and depth as it arrives, in constant memory, and tells a tally what stands on
// the paths of a tree. It skips all else, and checks only the form of what it follows. After a mistake there it ignores
// the rest of the value, up to the next reset. What it tells depends on the bytes, never on how they were cut.
//
// Rejected: package encoding/json, which holds a whole value, and an answer can be as long as it wants.
type scanner struct {
	tally *tally
	root  *node

	mode   scanMode
	node   *node // of the value that comes or is read, nil if it is not followed
	frames [maxFrames]frame
	depth  int // of frames
	nested int // containers that are open and not followed, inside the last frame

	isKey   bool // the string is a key
	keep    bool // the string is kept until its end
	escaped bool // the next byte of the string is
	text    [longestText]byte
	length  int // above its capacity if it does not fit
}

const (
	maxFrames   = 8
	longestText = 400 // a name that matters, with each letter escaped
)

// A frame is a container that is open and followed.
type frame struct {
	node  *node
	array bool
}

type scanMode uint8

const (
	scanValue  scanMode = iota // before a value
	scanKey                    // before a key
	scanColon                  // before a colon
	scanNext                   // before a comma or an end
	scanScalar                 // in a number or a word
	scanString
	scanNested // in a container that is skipped
	scanBroken // after a mistake
)

func (s *scanner) reset() {
	s.mode, s.node, s.depth, s.nested = scanValue, s.root, 0, 0
}

func (s *scanner) feed(p []byte) {
	for len(p) > 0 {
		switch s.mode {
		case scanBroken:
			return
		case scanString:
			p = p[s.feedString(p):]
		case scanNested:
			p = p[s.skipNested(p):]
		case scanScalar:
			if isDelimiter(p[0]) {
				s.endScalar(false)
				continue
			}
			s.add(p[:1])
			p = p[1:]
		default:
			if !isSpace(p[0]) {
				s.step(p[0])
			}
			p = p[1:]
		}
	}
}

func isSpace(b byte) bool { return b == ' ' || b == '\t' || b == '\n' || b == '\r' }

func isDelimiter(b byte) bool {
	switch b {
	case ',', ':', '{', '}', '[', ']', '"':
		return true
	}
	return isSpace(b)
}

// step takes a byte between two tokens, or the first one of a token.
func (s *scanner) step(b byte) {
	switch {
	case s.mode == scanValue:
		s.begin(b)
	case s.mode == scanKey && b == '"':
		s.beginString(true, true)
	case s.mode == scanColon && b == ':':
		s.mode = scanValue
	case s.mode == scanNext && b == ',':
		s.mode = scanKey
		if top := s.top(); top.array {
			s.mode, s.node = scanValue, top.node.elem
		}
	case s.mode != scanColon && s.ends(b):
		s.pop()
	default:
		s.mode = scanBroken
	}
}

func (s *scanner) top() *frame { return &s.frames[s.depth-1] }

func (s *scanner) ends(b byte) bool {
	return s.depth > 0 && (s.top().array && b == ']' || !s.top().array && b == '}')
}

// begin takes the first byte of a value, or the end of an array without one.
func (s *scanner) begin(b byte) {
	switch b {
	case '"':
		s.beginString(false, s.node.isText())
	case '{', '[':
		s.open(b == '[')
	case ',', ':', '}', ']':
		s.mode = scanBroken
		if b == ']' && s.ends(b) {
			s.pop()
		}
	default:
		s.beginString(false, s.node != nil)
		s.mode = scanScalar
		s.feed([]byte{b})
	}
}

// open begins a container. One that has nothing on a path is skipped, and so is one that is deeper than any API sends.
func (s *scanner) open(array bool) {
	follows := s.node.follows(array)
	tooDeep := follows && s.depth == maxFrames
	if s.node != nil && !tooDeep {
		s.tally.open(s.node.slot, array)
	}
	if tooDeep || !follows {
		s.mode, s.nested = scanNested, 1
		return
	}
	s.frames[s.depth] = frame{s.node, array}
	s.depth++
	s.mode = scanKey
	if array {
		s.mode, s.node = scanValue, s.node.elem
	}
}

func (s *scanner) pop() {
	s.tally.close(s.top().node.slot, s.top().array)
	s.depth--
	s.endValue()
}

func (s *scanner) endScalar(isText bool) {
	if s.node != nil {
		s.tally.scalar(s.node.slot, s.read(), isText)
	}
	s.endValue()
}

// endValue goes on after a value. After the outermost one another may come.
func (s *scanner) endValue() {
	s.mode, s.node = scanNext, nil
	if s.depth == 0 {
		s.mode, s.node = scanValue, s.root
	}
}

func (s *scanner) beginString(isKey, keep bool) {
	s.mode, s.isKey, s.keep, s.escaped, s.length = scanString, isKey, keep, false, 0
}

// feedString takes a part of a string, and returns how long that is. Only the backslashes before a quote matter, and
// those at the end of the part.
func (s *scanner) feedString(p []byte) int {
	for end := 0; ; end++ {
		next := bytes.IndexByte(p[end:], '"')
		if end += next; next < 0 {
			end = len(p)
		}
		slashes := end - len(bytes.TrimRight(p[:end], `\`))
		escaped := slashes%2 == 1
		if slashes == end && s.escaped { // they go on from the part before
			escaped = !escaped
		}
		switch {
		case next < 0:
			s.escaped = escaped
			s.add(p)
			return end
		case !escaped:
			s.add(p[:end])
			s.endString()
			return end + 1
		}
	}
}

func (s *scanner) endString() {
	switch {
	case s.isKey:
		key := s.read()
		s.mode, s.node = scanColon, s.top().node.child(key)
		if s.node != nil && s.node.slot == slotToolRequests {
			s.tally.draft.tool = toolNamed(strings.TrimSuffix(string(key), "_requests"))
		}
	case s.nested > 0:
		s.mode = scanNested
	default:
		s.endScalar(true)
	}
}

// skipNested skips a part of a container that is not followed, up to its end or to a string, and returns how long that
// is.
func (s *scanner) skipNested(p []byte) int {
	for i, b := range p {
		switch b {
		case '"':
			s.beginString(false, false)
			return i + 1
		case '{', '[':
			s.nested++
		case '}', ']':
			if s.nested--; s.nested == 0 {
				s.endValue()
				return i + 1
			}
		}
	}
	return len(p)
}

func (s *scanner) add(p []byte) {
	if s.keep {
		copy(s.text[min(s.length, longestText):], p)
		s.length = min(s.length+len(p), longestText+1)
	}
}

// read returns the text that was kept, empty if it is none or too long to be anything that is known.
func (s *scanner) read() []byte {
	if s.length > longestText {
		return nil
	}
	text := s.text[:s.length]
	if bytes.IndexByte(text, '\\') < 0 {
		return text
	}
	var unescaped string
	if json.Unmarshal(fmt.Appendf(nil, `"%s"`, text), &unescaped) != nil {
		return nil
	}
	return []byte(unescaped)
}
