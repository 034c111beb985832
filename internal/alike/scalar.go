package alike

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

func (r *Reader) stringValue(key []byte) uint64 {
	text := r.stringBytes()
	if !r.muted && !r.broken {
		r.listener.String(r.depth, key, text)
	}
	digest := r.text(text)
	r.say([]byte{10})
	return Mix(digest, 's')
}

// stringBytes reads a string and returns what it means, which is valid until the next call.
func (r *Reader) stringBytes() []byte {
	start := r.at + 1
	i := r.plainUntil(start)
	if i < len(r.in) && r.in[i] == '"' {
		r.at = i + 1
		return r.in[start:i]
	}
	r.spare = r.spare[:0]
	for i < len(r.in) && r.in[i] >= ' ' {
		r.spare = append(r.spare, r.in[start:i]...)
		if r.in[i] == '"' {
			r.at = i + 1
			return r.spare
		}
		n := r.escape(r.in[i+1:])
		if n == 0 {
			break
		}
		start = i + 1 + n
		i = r.plainUntil(start)
	}
	r.fail()
	return nil
}

// plainUntil returns where the next byte of a string is that does not mean itself.
func (r *Reader) plainUntil(i int) int {
	for i+8 <= len(r.in) && areText(binary.LittleEndian.Uint64(r.in[i:])) {
		i += 8
	}
	for i < len(r.in) && r.in[i] >= ' ' && r.in[i] != '"' && r.in[i] != '\\' {
		i++
	}
	return i
}

// areText reports whether each of eight bytes means itself in a JSON string. To say no of some that do is no mistake.
func areText(eight uint64) bool {
	const each, high = 0x0101010101010101, 0x8080808080808080
	quote, escape := eight^each*'"', eight^each*'\\'
	return ((eight-each*' ')&^eight|(quote-each)&^quote|(escape-each)&^escape)&high == 0
}

// escape appends what an escape means, and returns its length after the backslash, or 0.
func (r *Reader) escape(text []byte) int {
	if len(text) == 0 {
		return 0
	}
	switch b := text[0]; b {
	case '"', '\\', '/':
		r.spare = append(r.spare, b)
		return 1
	case 'b', 'f', 'n', 'r', 't':
		r.spare = append(r.spare, "\b...\r.......\n...\r.\t"[b-'b'])
		return 1
	}
	first, ok := unit(text)
	if !ok {
		return 0
	}
	if utf16.IsSurrogate(first) && len(text) > 5 && text[5] == '\\' {
		if second, ok := unit(text[6:]); ok {
			if pair := utf16.DecodeRune(first, second); pair != utf8.RuneError {
				r.spare = utf8.AppendRune(r.spare, pair)
				return 11
			}
		}
	}
	r.spare = utf8.AppendRune(r.spare, first) // a lone surrogate becomes U+FFFD, as everywhere
	return 5
}

// unit reads the u and the four digits of an escape.
func unit(text []byte) (rune, bool) {
	if len(text) < 5 || text[0] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[1:5]), 16, 16)
	return rune(n), err == nil //nolint:gosec // it has 16 bits
}

func (r *Reader) number(key []byte) uint64 {
	n := numberLength(r.in[r.at:])
	if n == 0 {
		return r.fail()
	}
	literal := r.in[r.at : r.at+n]
	r.at += n
	place := !r.outcome && namesPlace(key)
	r.placed = r.placed || place
	if why := !r.outcome && Why(key); !r.muted && !place && !why {
		r.listener.Number(key, literal)
	}
	if r.outcome && differs(key) {
		return blurred
	}
	return numberDigest(literal)
}

// namesPlace reports whether a field says where to read, such as offset, page and start_line.
func namesPlace(key []byte) bool {
	var memory [32]byte
	name := Lower(memory[:], key)
	return len(key) <= len(memory) && oneOf(places, name, bytes.Contains)
}

var places = []string{
	"offset", "page", "start", "line", "from", "skip", "cursor", "begin", "position", "range", "after",
}

// Lower copies the beginning of a text in lower case.
func Lower(memory, text []byte) []byte {
	head := memory[:copy(memory, text)]
	for i, b := range head {
		if 'A' <= b && b <= 'Z' {
			head[i] = b | 0x20
		}
	}
	return head
}

// numberLength returns the length of the number that a text begins with, or 0.
func numberLength(text []byte) int {
	start := 0
	if len(text) > 0 && text[0] == '-' {
		start = 1
	}
	n := start + digits(text[start:])
	if n == start || text[start] == '0' && n > start+1 {
		return 0
	}
	if n < len(text) && text[n] == '.' {
		if start, n = n, fraction(text, n); n == start {
			return 0
		}
	}
	return exponent(text, n)
}

// exponent returns the end of the exponent of a number that may begin at n, or 0 if it has no digits.
func exponent(text []byte, n int) int {
	if n == len(text) || text[n]|0x20 != 'e' {
		return n
	}
	if n++; n < len(text) && (text[n] == '+' || text[n] == '-') {
		n++
	}
	if more := digits(text[n:]); more > 0 {
		return n + more
	}
	return 0
}

// numberDigest takes a number by its value, so that 1, 1.0 and 1e0 are one. Integers are compared whole, others as
// float64.
func numberDigest(literal []byte) uint64 {
	if !bytes.ContainsAny(literal, ".eE-") {
		return Sum('#', literal)
	}
	value, err := strconv.ParseFloat(string(literal), 64)
	var memory [32]byte
	switch {
	case err != nil || math.Abs(value) >= 1<<53:
		return Sum('#', literal)
	case value == math.Trunc(value):
		return Sum('#', strconv.AppendInt(memory[:0], int64(value), 10))
	}
	return Mix(math.Float64bits(value), '#')
}
