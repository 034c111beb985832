package loop

import (
	"bytes"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is how deep JSON may be nested. What is deeper is compared as text.
const maxDepth = 100

// Bytes that are in no valid UTF-8 mark what is not text: the ends of strings, and what was blurred.
const (
	endMark  = 0xff
	blurMark = 0xfe
)

// A canon writes the canonical form of JSON or of text: equal forms are equal values. The form of an object has its
// keys sorted by their bytes, and keeps those that come twice in their order. Strings are written as what their escapes
// mean, numbers by their value. What is not JSON is its bytes.
//
// It is written by hand and not with [encoding/json], in one pass and into memory that is used again, because every step
// of every run goes through it.
type canon struct {
	out     []byte
	in      []byte
	at      int
	depth   int
	spare   []byte
	members []member // of the objects that are being read

	outcome  bool            // blur, leave volatile fields out and look for signs
	volatile map[string]bool // the names of fields that are left out of an outcome
	placed   bool            // blur the numbers that say where to read
	signs    signs           // of an outcome
	hints    hints           // of an input
}

// A member is where the form of a member of an object is in out.
type member struct{ start, keyEnd, end int }

// write appends the canonical form of a text to out.
func (c *canon) write(text []byte) {
	start := len(c.out)
	c.in, c.at, c.depth, c.members = text, 0, 0, c.members[:0]
	c.out = append(c.out, 'j')
	if bytes.IndexByte(text, endMark) < 0 && c.value(nil) && c.space() == 0 {
		return
	}
	c.out = append(c.out[:start], 't')
	c.members, c.signs, c.hints = c.members[:0], signs{}, hints{}
	c.text(text)
	if c.outcome {
		c.signs.text(text)
	}
}

// text appends a string as it is, or blurred if it is part of an outcome.
func (c *canon) text(text []byte) {
	if c.outcome {
		c.out = appendBlurred(c.out, text)
		return
	}
	c.out = append(c.out, text...)
}

// space skips white space and returns the next byte, or 0 at the end.
func (c *canon) space() byte {
	for ; c.at < len(c.in); c.at++ {
		switch b := c.in[c.at]; b {
		case ' ', '\t', '\n', '\r':
		default:
			return max(b, 1) // a zero byte is not the end, and not JSON
		}
	}
	return 0
}

// value reads one value, the one of that key, and reports whether it is JSON.
func (c *canon) value(key []byte) bool {
	switch b := c.space(); b {
	case '{':
		return c.nested((*canon).object, key)
	case '[':
		return c.nested((*canon).array, key)
	case '"':
		return c.stringValue(key)
	case 't':
		return c.literal("true", key)
	case 'f':
		return c.literal("false", key)
	case 'n':
		return c.literal("null", key)
	default:
		return (b == '-' || isDigit(b)) && c.number(key)
	}
}

func (c *canon) nested(read func(c *canon, key []byte) bool, key []byte) bool {
	c.depth++
	c.at++
	ok := c.depth <= maxDepth && read(c, key)
	c.depth--
	return ok
}

func (c *canon) literal(name string, key []byte) bool {
	if !bytes.HasPrefix(c.in[c.at:], []byte(name)) {
		return false
	}
	c.at += len(name)
	c.out = append(c.out, name[0])
	c.signs.literal(key, name)
	return true
}

func (c *canon) array(key []byte) bool {
	c.out = append(c.out, '[')
	if c.space() == ']' {
		c.at++
		c.out = append(c.out, ']')
		c.signs.nothing = true
		return true
	}
	c.signs.lists++
	for {
		if !c.value(key) {
			return false
		}
		next := c.space()
		c.at++
		switch next {
		case ',':
		case ']':
			c.signs.lists--
			c.out = append(c.out, ']')
			return true
		default:
			return false
		}
	}
}

func (c *canon) object([]byte) bool {
	c.out = append(c.out, '{')
	start, base := len(c.out), len(c.members)
	if c.space() == '}' {
		c.at++
		c.out = append(c.out, '}')
		return true
	}
	for {
		if c.space() != '"' || !c.member() {
			return false
		}
		next := c.space()
		c.at++
		switch next {
		case ',':
		case '}':
			c.sort(start, c.members[base:])
			c.members = c.members[:base]
			c.out = append(c.out, '}')
			return true
		default:
			return false
		}
	}
}

func (c *canon) member() bool {
	m := member{start: len(c.out)}
	key, ok := c.stringBytes()
	if !ok || c.spaceAfter(key, &m) != ':' {
		return false
	}
	c.at++
	key = c.out[m.start:m.keyEnd]
	found := c.signs
	if !c.value(key) {
		return false
	}
	if c.outcome && c.volatile[string(key)] {
		c.out, c.signs = c.out[:m.start], found
		return true
	}
	m.end = len(c.out)
	c.members = append(c.members, m)
	return true
}

// spaceAfter writes a key and returns the next byte after it.
func (c *canon) spaceAfter(key []byte, m *member) byte {
	c.out = append(c.out, key...)
	m.keyEnd = len(c.out)
	c.out = append(c.out, endMark)
	return c.space()
}

// sort sorts the members of an object, whose form begins at start.
func (c *canon) sort(start int, members []member) {
	byKey := func(a, b member) int {
		return bytes.Compare(c.out[a.start:a.keyEnd], c.out[b.start:b.keyEnd])
	}
	if slices.IsSortedFunc(members, byKey) {
		return
	}
	slices.SortStableFunc(members, byKey)
	c.spare = c.spare[:0]
	for _, m := range members {
		c.spare = append(c.spare, c.out[m.start:m.end]...)
	}
	copy(c.out[start:], c.spare)
}

func (c *canon) stringValue(key []byte) bool {
	text, ok := c.stringBytes()
	if !ok {
		return false
	}
	c.out = append(c.out, 's')
	c.text(text)
	c.out = append(c.out, endMark)
	if c.outcome {
		c.signs.string(key, text)
	} else {
		c.hints.string(c.depth, key, text)
	}
	return true
}

// stringBytes reads a string and returns what it means, which is valid until the next call.
func (c *canon) stringBytes() ([]byte, bool) {
	rest := c.in[c.at+1:]
	for i, b := range rest {
		switch {
		case b == '"':
			c.at += i + 2
			return rest[:i], true
		case b == '\\':
			c.spare = append(c.spare[:0], rest[:i]...)
			return c.unescape(c.at + 1 + i)
		case b < ' ':
			return nil, false
		}
	}
	return nil, false
}

// unescape reads a string from its first escape on.
func (c *canon) unescape(at int) ([]byte, bool) {
	for at < len(c.in) {
		switch b := c.in[at]; {
		case b == '"':
			c.at = at + 1
			return c.spare, true
		case b < ' ':
			return nil, false
		case b != '\\':
			c.spare = append(c.spare, b)
			at++
		default:
			n := c.escape(c.in[at+1:])
			if n == 0 {
				return nil, false
			}
			at += 1 + n
		}
	}
	return nil, false
}

// escape appends what an escape means, and returns its length after the backslash, or 0.
func (c *canon) escape(text []byte) int {
	if len(text) == 0 {
		return 0
	}
	if i := bytes.IndexByte([]byte(`"\/bfnrt`), text[0]); i >= 0 {
		c.spare = append(c.spare, "\"\\/\b\f\n\r\t"[i])
		return 1
	}
	first, ok := unit(text)
	if !ok {
		return 0
	}
	if utf16.IsSurrogate(first) && len(text) > 5 && text[5] == '\\' {
		if second, ok := unit(text[6:]); ok {
			if r := utf16.DecodeRune(first, second); r != utf8.RuneError {
				c.spare = utf8.AppendRune(c.spare, r)
				return 11
			}
		}
	}
	c.spare = utf8.AppendRune(c.spare, first) // a lone surrogate becomes U+FFFD, as everywhere
	return 5
}

// unit reads the u and the four digits of an escape.
func unit(text []byte) (rune, bool) {
	if len(text) < 5 || text[0] != 'u' {
		return 0, false
	}
	n := rune(0)
	for _, b := range text[1:5] {
		if !isHex(b) {
			return 0, false
		}
		n = n<<4 | rune(hexValue(b))
	}
	return n, true
}

func (c *canon) number(key []byte) bool {
	n := numberLength(c.in[c.at:])
	if n == 0 {
		return false
	}
	literal := c.in[c.at : c.at+n]
	c.at += n
	switch {
	case c.outcome && namesDuration(key), c.placed && namesPlace(key):
		c.out = append(c.out, blurMark)
	default:
		c.out = append(appendNumber(append(c.out, '#'), literal), endMark)
	}
	if c.outcome {
		c.signs.number(key, literal)
	} else if namesPlace(key) {
		c.hints.placed = true
	}
	return true
}

// numberLength returns the length of the number that a text begins with, or 0.
func numberLength(text []byte) int {
	i := 0
	digits := func() bool {
		start := i
		for i < len(text) && isDigit(text[i]) {
			i++
		}
		return i > start
	}
	is := func(set string) bool { return i < len(text) && bytes.IndexByte([]byte(set), text[i]) >= 0 }
	if is("-") {
		i++
	}
	if is("0") {
		i++
	} else if !digits() {
		return 0
	}
	if is(".") {
		if i++; !digits() {
			return 0
		}
	}
	if is("eE") {
		if i++; is("+-") {
			i++
		}
		if !digits() {
			return 0
		}
	}
	return i
}

// appendNumber appends a number as its digits without zeros at either end, times a power of ten: -12.50 becomes
// -125e-1. Zero becomes 0. A number whose exponent is huge is written as it is.
func appendNumber(out, literal []byte) []byte {
	start := len(out)
	mantissa, exponent := literal, 0
	if i := bytes.IndexAny(literal, "eE"); i >= 0 {
		var err error
		if exponent, err = strconv.Atoi(string(literal[i+1:])); err != nil || exponent > 1e9 || exponent < -1e9 {
			return append(out, literal...)
		}
		mantissa = literal[:i]
	}
	negative := mantissa[0] == '-'
	if negative {
		mantissa = mantissa[1:]
		out = append(out, '-')
	}
	first := len(out)
	for i, b := range mantissa {
		switch {
		case b == '.':
			exponent -= len(mantissa) - i - 1
		case b != '0' || len(out) > first:
			out = append(out, b)
		}
	}
	for len(out) > first && out[len(out)-1] == '0' {
		out = out[:len(out)-1]
		exponent++
	}
	if len(out) == first {
		return append(out[:start], '0')
	}
	return strconv.AppendInt(append(out, 'e'), int64(exponent), 10)
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

func isLetter(b byte) bool { return 'a' <= b|0x20 && b|0x20 <= 'z' }

func isHex(b byte) bool { return isDigit(b) || 'a' <= b|0x20 && b|0x20 <= 'f' }

func hexValue(b byte) byte {
	if isDigit(b) {
		return b - '0'
	}
	return b | 0x20 - 'a' + 10
}
