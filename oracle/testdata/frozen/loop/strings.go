package loop

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

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

func isHex(b byte) bool { return isDigit(b) || 'a' <= b|0x20 && b|0x20 <= 'f' }

func hexValue(b byte) byte {
	if isDigit(b) {
		return b - '0'
	}
	return b | 0x20 - 'a' + 10
}
