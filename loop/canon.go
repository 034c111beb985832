package loop

import (
	"bytes"
	"slices"
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
// It is written by hand and not with [encoding/json], in one pass and into memory that is used again, because every
// step of every run goes through it.
type canon struct {
	out     []byte
	in      []byte
	at      int
	depth   int
	spare   []byte
	members []member // of the objects that are being read

	outcome  bool            // blur, leave volatile fields out and look for signs
	volatile map[string]bool // the names of fields that are left out of an outcome
	plain    bool            // blur nothing
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
	c.members, c.signs, c.hints = c.members[:0], signs{computes: c.signs.computes}, hints{}
	c.text(text)
	if c.outcome {
		c.signs.text(text)
	} else {
		c.hints.words.add(text)
	}
}

// text appends a string as it is, or blurred if it is part of an outcome.
func (c *canon) text(text []byte) {
	if c.outcome && !c.plain {
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
