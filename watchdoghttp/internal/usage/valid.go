package usage

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// deepest is how many containers may lie in each other, as in encoding/json.
const deepest = 10_000

// valid reports what [json.Valid] does. A request waits for it, and most of one is long texts, which this goes through
// two to five times as fast.
func valid(p []byte) bool {
	i := validValue(p, skipTo(p, 0), 0)
	return i >= 0 && skipTo(p, i) == len(p)
}

// validValue returns where the value ends that begins there, -1 if it is not valid. So do those below.
func validValue(p []byte, i, depth int) int {
	if i >= len(p) {
		return -1
	}
	switch c := p[i]; {
	case c == '"':
		return validString(p, i+1)
	case c == '{':
		return validContainer(p, i+1, depth+1, '}')
	case c == '[':
		return validContainer(p, i+1, depth+1, ']')
	case c == '-' || isDigit(c):
		return validNumber(p, i)
	}
	for _, word := range words {
		if bytes.HasPrefix(p[i:], word) {
			return i + len(word)
		}
	}
	return -1
}

var words = [][]byte{[]byte("true"), []byte("false"), []byte("null")}

// validContainer goes on after the bracket of an object or an array.
func validContainer(p []byte, i, depth int, end byte) int {
	if depth > deepest {
		return -1
	}
	if i = skipTo(p, i); i < len(p) && p[i] == end {
		return i + 1
	}
	for {
		if end == '}' {
			if i = validKey(p, i); i < 0 {
				return -1
			}
		}
		if i = validValue(p, i, depth); i < 0 {
			return -1
		}
		switch i = skipTo(p, i); {
		case i < len(p) && p[i] == end:
			return i + 1
		case i == len(p) || p[i] != ',':
			return -1
		}
		i = skipTo(p, i+1)
	}
}

// validKey returns where the value of the key begins.
func validKey(p []byte, i int) int {
	if i == len(p) || p[i] != '"' {
		return -1
	}
	if i = validString(p, i+1); i < 0 {
		return -1
	}
	if i = skipTo(p, i); i == len(p) || p[i] != ':' {
		return -1
	}
	return skipTo(p, i+1)
}

// validString goes on after the quote.
func validString(p []byte, i int) int {
	for {
		for i+8 <= len(p) && areText(binary.LittleEndian.Uint64(p[i:])) {
			i += 8
		}
		for i < len(p) && isText(p[i]) {
			i++
		}
		switch {
		case i == len(p):
			return -1
		case p[i] == '"':
			return i + 1
		case p[i] == '\\':
			if i = validEscape(p, i+1); i < 0 {
				return -1
			}
		default:
			return -1
		}
	}
}

// isText reports whether the byte of a string means itself.
func isText(b byte) bool { return b >= ' ' && b != '"' && b != '\\' }

// areText reports whether that is so of eight bytes at once. To say no of some that are is no mistake.
func areText(eight uint64) bool {
	const each, high = 0x0101010101010101, 0x8080808080808080
	quote, escape := eight^each*'"', eight^each*'\\'
	return ((eight-each*' ')&^eight|(quote-each)&^quote|(escape-each)&^escape)&high == 0
}

// validEscape goes on after the backslash.
func validEscape(p []byte, i int) int {
	switch {
	case i == len(p):
		return -1
	case p[i] == 'u' && i+4 < len(p) && isHex(p[i+1:i+5]):
		return i + 5
	case bytes.IndexByte(escaped, p[i]) < 0:
		return -1
	}
	return i + 1
}

var escaped = []byte(`"\/bfnrt`)

func isHex(p []byte) bool {
	for _, b := range p {
		if !isDigit(b) && (b|0x20 < 'a' || b|0x20 > 'f') {
			return false
		}
	}
	return true
}

// validNumber takes a number: a sign, a whole part without a zero before others, a fraction, an exponent.
func validNumber(p []byte, i int) int {
	i = skipOne(p, i, "-")
	from := i
	if i = digits(p, i); i < 0 || p[from] == '0' && i > from+1 {
		return -1
	}
	if after := skipOne(p, i, "."); after > i {
		if i = digits(p, after); i < 0 {
			return -1
		}
	}
	if after := skipOne(p, i, "eE"); after > i {
		i = digits(p, skipOne(p, after, "+-"))
	}
	return i
}

// skipOne goes over one byte if it is one of these.
func skipOne(p []byte, i int, of string) int {
	if i < len(p) && strings.IndexByte(of, p[i]) >= 0 {
		return i + 1
	}
	return i
}

// digits goes over at least one digit.
func digits(p []byte, i int) int {
	from := i
	for i < len(p) && isDigit(p[i]) {
		i++
	}
	if i == from {
		return -1
	}
	return i
}

// skipTo returns where the next byte is that is no space, or the length.
func skipTo(p []byte, i int) int {
	for i < len(p) && isSpace(p[i]) {
		i++
	}
	return i
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }
