package usage

import "bytes"

// A scanner goes through JSON of any size and depth as it arrives, in constant memory, and tells a [tally] what lies on
// the paths of a tree. It skips all else, and checks only the form of what it follows. After a mistake there it ignores
// the rest of the value, up to the next reset. What it tells depends on the bytes, never on how they were cut.
type scanner struct {
	tally *tally
	root  *node

	mode   scanMode
	after  scanMode // when the string is over
	node   *node    // of the value that comes or is read, nil if it is not followed
	frames [maxFrames]frame
	depth  int // of frames
	nested int // containers that are open and not followed, inside the last frame

	escape int // how much of an escape has come: 0 none, 1 the backslash, 2 to 5 with so many hex digits less two
	code   rune
	text   [longestText]byte // a key, or a value that is told
	length int               // above its capacity if it does not fit
}

const (
	maxFrames   = 8
	longestText = 80
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
	scanString                 // in a string that is skipped
	scanText                   // in a string that is read
	scanNested                 // in a container that is skipped
	scanBroken                 // after a mistake
)

// reset makes the scanner ready for another value.
func (s *scanner) reset() {
	s.mode, s.node, s.depth, s.nested, s.escape, s.length = scanValue, s.root, 0, 0, 0, 0
}

func (s *scanner) feed(p []byte) {
	for len(p) > 0 {
		switch s.mode {
		case scanBroken:
			return
		case scanString:
			p = p[s.skipString(p):]
		case scanNested:
			p = p[s.skipNested(p):]
		case scanText:
			s.addText(p[0])
			p = p[1:]
		case scanScalar:
			if isDelimiter(p[0]) {
				s.endScalar()
				continue
			}
			s.add(p[0])
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
		s.mode, s.after, s.length = scanText, scanColon, 0
	case s.mode == scanColon && b == ':':
		s.mode = scanValue
	case s.mode == scanNext && b == ',':
		s.next()
	case s.mode != scanColon && s.ends(b):
		s.pop()
	default:
		s.mode = scanBroken
	}
}

// ends reports whether the byte ends the innermost frame.
func (s *scanner) ends(b byte) bool {
	if s.depth == 0 {
		return false
	}
	if s.frames[s.depth-1].array {
		return b == ']'
	}
	return b == '}'
}

// next goes on in the innermost frame after a comma.
func (s *scanner) next() {
	if top := s.frames[s.depth-1]; top.array {
		s.mode, s.node = scanValue, top.node.elem
		return
	}
	s.mode = scanKey
}

// begin takes the first byte of a value, or the end of an array without one.
func (s *scanner) begin(b byte) {
	switch b {
	case '"':
		s.beginString()
	case '{':
		s.open(s.node != nil && (s.node.keys != nil || s.node.other != nil), false)
	case '[':
		s.open(s.node != nil && s.node.elem != nil, true)
	case ',', ':', '}', ']':
		s.mode = scanBroken
		if b == ']' && s.ends(b) {
			s.pop()
		}
	default:
		s.mode, s.length = scanScalar, 0
		s.add(b)
	}
}

func (s *scanner) beginString() {
	s.mode, s.after, s.length = scanString, scanNext, 0
	if s.node == nil {
		return
	}
	if s.node.text {
		s.mode = scanText
		return
	}
	s.tally.scalar(s.node, nil, true)
}

func (s *scanner) open(follow, array bool) {
	if s.node != nil {
		s.tally.open(s.node, array)
	}
	if !follow || s.depth == maxFrames {
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

// pop ends the innermost frame.
func (s *scanner) pop() {
	s.depth--
	s.tally.close(s.frames[s.depth].node, s.frames[s.depth].array)
	s.endValue()
}

// endValue goes on after a value. After the outermost one another may come.
func (s *scanner) endValue() {
	s.mode, s.node = scanNext, nil
	if s.depth == 0 {
		s.mode, s.node = scanValue, s.root
	}
}

func (s *scanner) endScalar() {
	if s.node != nil {
		s.tally.scalar(s.node, s.read(), false)
	}
	s.endValue()
}

// endString ends a string of either kind.
func (s *scanner) endString() {
	switch {
	case s.after == scanColon:
		s.mode, s.node = scanColon, s.child(s.read())
		return
	case s.nested > 0:
		s.mode = scanNested
		return
	case s.mode == scanText:
		s.tally.scalar(s.node, s.read(), true)
	}
	s.endValue()
}

// child returns the place of a key in the innermost frame.
func (s *scanner) child(key []byte) *node {
	in := s.frames[s.depth-1].node
	if known := in.keys[string(key)]; known != nil || in.other == nil {
		return known
	}
	s.tally.tool = toolNamed(bytes.TrimSuffix(key, []byte("_requests")))
	return in.other
}

// skipString skips a part of a string, and returns how long that is. Only the backslashes before a quote matter, and
// those at the end of the part.
func (s *scanner) skipString(p []byte) int {
	for from := 0; ; {
		quote := bytes.IndexByte(p[from:], '"')
		end := from + quote
		if quote < 0 {
			end = len(p)
		}
		begin := end
		for begin > from && p[begin-1] == '\\' {
			begin--
		}
		escapes := end - begin
		if begin == from {
			escapes += s.escape // the byte before was a backslash that escapes
		}
		s.escape = escapes % 2
		switch {
		case quote < 0:
			return end
		case s.escape == 0:
			s.endString()
			return end + 1
		}
		from, s.escape = end+1, 0
	}
}

// skipNested skips a part of a container that is not followed, up to its end or to a string, and returns how long that
// is.
func (s *scanner) skipNested(p []byte) int {
	for i, b := range p {
		switch b {
		case '"':
			s.mode, s.after = scanString, scanNested
			return i + 1
		case '{', '[':
			s.nested++
		case '}', ']':
			s.nested--
			if s.nested == 0 {
				s.endValue()
				return i + 1
			}
		}
	}
	return len(p)
}

// addText takes a byte of a string that is read.
func (s *scanner) addText(b byte) {
	switch {
	case s.escape > 1:
		s.addHex(b)
	case s.escape == 1:
		s.addEscaped(b)
	case b == '\\':
		s.escape = 1
	case b == '"':
		s.endString()
	default:
		s.add(b)
	}
}

// addEscaped takes the byte after a backslash. None of the names that matter has a control character.
func (s *scanner) addEscaped(b byte) {
	s.escape = 0
	switch b {
	case 'u':
		s.escape, s.code = 2, 0
	case '"', '\\', '/':
		s.add(b)
	default:
		s.add(notInName)
	}
}

// notInName stands for a character that no name has.
const notInName = 0xff

func (s *scanner) addHex(b byte) {
	s.code = s.code<<4 | hexValue(b)
	if s.escape++; s.escape < 6 {
		return
	}
	s.escape = 0
	if s.code >= 0x80 {
		s.code = notInName
	}
	s.add(byte(s.code))
}

// hexValue returns the value of a digit; that of any other byte makes the character one that no name has.
func hexValue(b byte) rune {
	switch {
	case b >= '0' && b <= '9':
		return rune(b - '0')
	case b >= 'a' && b <= 'f':
		return rune(b-'a') + 10
	case b >= 'A' && b <= 'F':
		return rune(b-'A') + 10
	}
	return 1 << 20
}

func (s *scanner) add(b byte) {
	if s.length < longestText {
		s.text[s.length] = b
	}
	s.length = min(s.length+1, longestText+1)
}

// read returns what was read, or nil if it was too long to be anything that is known.
func (s *scanner) read() []byte {
	if s.length > longestText {
		return nil
	}
	return s.text[:s.length]
}
