package loop

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is how deep JSON may be nested. What is deeper is compared as text.
const maxDepth = 100

// maxSaid is how much of the texts of an outcome is kept to compare failures, in bytes.
const maxSaid = 4 << 10

// blurred is the digest of what is left out.
const blurred = 1

// A form reads JSON or text once. It returns a digest that is the same for equal values, whatever the order of the
// members of an object and the spelling of strings and numbers, and notes what else the text says.
//
// It is written by hand and not with [encoding/json], which needs memory for each value of every step of every run.
type form struct {
	in    []byte
	at    int
	depth int
	spare []byte // a string that has escapes
	noise uint64 // of the members of the outermost object that say why a command is run, or for how long
	runs  bool   // it has a command
	fixed uint64 // digest of the outermost object without the numbers that say where to read

	outcome  bool // blur, leave volatile fields and lines out, and look for signs
	plain    bool // but blur nothing
	whole    bool // leave out nothing that says why a command is run
	volatile names
	said     []byte // the beginning of the texts of an outcome
	signs    signs  // of an outcome
	hints    hints  // of an input
}

// A names is a set of names.
type names struct {
	set     map[string]bool
	lengths uint64 // a bit for each length that one has, up to 63
}

func (n *names) add(name string) {
	n.set[name] = true
	n.lengths |= 1 << min(len(name), 63)
}

func (n *names) has(name []byte) bool {
	return n.lengths>>min(len(name), 63)&1 != 0 && n.set[string(name)]
}

// read returns the digest of a text, as JSON if it is that.
func (f *form) read(text []byte) uint64 {
	f.in, f.at, f.depth, f.fixed, f.noise, f.runs = text, 0, 0, 0, 0, false
	computes := f.signs.computes
	if digest, ok := f.value(nil); ok && f.space() == 0 {
		return digest
	}
	f.signs, f.hints, f.said, f.fixed = signs{computes: computes}, hints{}, f.said[:0], 0
	if f.outcome {
		f.signs.text(text)
	} else {
		f.hints.words.add(text)
	}
	return mix(f.text(text), 't')
}

// space skips white space and returns the next byte, or 0 at the end.
func (f *form) space() byte {
	for ; f.at < len(f.in); f.at++ {
		switch b := f.in[f.at]; b {
		case ' ', '\t', '\n', '\r':
		default:
			return max(b, 1) // a zero byte is not the end, and not JSON
		}
	}
	return 0
}

// value reads one value, the one of that key. It returns its digest, and whether it is JSON.
func (f *form) value(key []byte) (digest uint64, ok bool) {
	switch b := f.space(); b {
	case '{', '[':
		f.depth++
		f.at++
		if f.depth > maxDepth {
			return 0, false
		}
		if b == '{' {
			digest, ok = f.object(key)
		} else {
			digest, ok = f.array(key)
		}
		f.depth--
		return digest, ok
	case '"':
		return f.stringValue(key)
	case 't':
		return f.literal("true", key)
	case 'f':
		return f.literal("false", key)
	case 'n':
		return f.literal("null", key)
	default:
		return f.number(key)
	}
}

func (f *form) literal(name string, key []byte) (uint64, bool) {
	if !bytes.HasPrefix(f.in[f.at:], []byte(name)) {
		return 0, false
	}
	f.at += len(name)
	f.signs.literal(key, name)
	return mix(uint64(name[0]), 'l'), true
}

func (f *form) array(key []byte) (digest uint64, ok bool) {
	if f.space() == ']' {
		f.at++
		f.signs.nothing = true
		return mix(0, '['), true
	}
	f.signs.lists++
	for {
		item, ok := f.value(key)
		if !ok {
			return 0, false
		}
		digest = mix(digest, item)
		switch f.next() {
		case ',':
		case ']':
			f.signs.lists--
			return mix(digest, '['), true
		default:
			return 0, false
		}
	}
}

// saysWhy reports whether a field beside a command says why it is run, or how, which a model words anew each time: those
// of Claude Code, Codex, Cursor and OpenHands.
func saysWhy(key []byte) bool {
	switch string(key) {
	case "description", "explanation", "justification", "timeout", "timeout_ms", "yield_time_ms", "max_output_tokens",
		"with_escalated_permissions", "sandbox_permissions", "run_in_background", "security_risk":
		return true
	}
	return false
}

// next takes the byte after a value.
func (f *form) next() byte {
	b := f.space()
	f.at++
	return b
}

// object adds its members up, because their order makes no difference.
func (f *form) object(key []byte) (digest uint64, ok bool) {
	f.signs.failed = f.signs.failed || isOneOf(key, "error", "err")
	if f.space() == '}' {
		f.at++
		return mix(0, '{'), true
	}
	for {
		member, ok := f.member()
		if !ok {
			return 0, false
		}
		digest += member
		switch f.next() {
		case ',':
		case '}':
			if f.runs && f.depth == 1 && !f.outcome && !f.whole {
				digest -= f.noise
			}
			return mix(digest, '{'), true
		default:
			return 0, false
		}
	}
}

func (f *form) member() (uint64, bool) {
	if f.space() != '"' {
		return 0, false
	}
	key, ok := f.stringBytes()
	if !ok || f.next() != ':' {
		return 0, false
	}
	if len(f.spare) > 0 && len(key) > 0 && &key[0] == &f.spare[0] {
		key = bytes.Clone(key) // which other strings take the memory of
	}
	before, said := f.signs, len(f.said)
	value, ok := f.value(key)
	if f.outcome && f.volatile.has(key) {
		f.signs, f.said = before, f.said[:said]
		return 0, ok
	}
	member := mix(sum('k', key), value)
	if f.depth == 1 && !f.outcome {
		f.runs = f.runs || isOneOf(key, "command", "cmd")
		if saysWhy(key) {
			f.noise += member
		}
	}
	if f.depth == 1 && !(f.hints.placed && namesPlace(key)) {
		f.fixed += member
	}
	return member, ok
}

func (f *form) stringValue(key []byte) (uint64, bool) {
	text, ok := f.stringBytes()
	if !ok {
		return 0, false
	}
	if f.outcome {
		f.signs.string(key, text)
	} else {
		f.hints.string(f.depth, key, text)
	}
	digest := f.text(text)
	f.say([]byte{10})
	return mix(digest, 's'), true
}

// stringBytes reads a string and returns what it means, which is valid until the next call.
func (f *form) stringBytes() ([]byte, bool) {
	start := f.at + 1
	i := f.plainUntil(start)
	if i < len(f.in) && f.in[i] == '"' {
		f.at = i + 1
		return f.in[start:i], true
	}
	f.spare = f.spare[:0]
	for i < len(f.in) && f.in[i] >= ' ' {
		f.spare = append(f.spare, f.in[start:i]...)
		if f.in[i] == '"' {
			f.at = i + 1
			return f.spare, true
		}
		n := f.escape(f.in[i+1:])
		if n == 0 {
			break
		}
		start = i + 1 + n
		i = f.plainUntil(start)
	}
	return nil, false
}

// plainUntil returns where the next byte of a string is that does not mean itself.
func (f *form) plainUntil(i int) int {
	for i+8 <= len(f.in) && areText(binary.LittleEndian.Uint64(f.in[i:])) {
		i += 8
	}
	for i < len(f.in) && f.in[i] >= ' ' && f.in[i] != '"' && f.in[i] != '\\' {
		i++
	}
	return i
}

// escape appends what an escape means, and returns its length after the backslash, or 0.
func (f *form) escape(text []byte) int {
	if len(text) == 0 {
		return 0
	}
	switch b := text[0]; b {
	case '"', '\\', '/':
		f.spare = append(f.spare, b)
		return 1
	case 'b', 'f', 'n', 'r', 't':
		f.spare = append(f.spare, "\b...\f.......\n...\r.\t"[b-'b'])
		return 1
	}
	first, ok := unit(text)
	if !ok {
		return 0
	}
	if utf16.IsSurrogate(first) && len(text) > 5 && text[5] == '\\' {
		if second, ok := unit(text[6:]); ok {
			if r := utf16.DecodeRune(first, second); r != utf8.RuneError {
				f.spare = utf8.AppendRune(f.spare, r)
				return 11
			}
		}
	}
	f.spare = utf8.AppendRune(f.spare, first) // a lone surrogate becomes U+FFFD, as everywhere
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

func (f *form) number(key []byte) (uint64, bool) {
	n := numberLength(f.in[f.at:])
	if n == 0 {
		return 0, false
	}
	literal := f.in[f.at : f.at+n]
	f.at += n
	if !f.outcome {
		if namesPlace(key) {
			f.hints.placed = true
		} else {
			f.hints.words.add(literal)
		}
		return numberDigest(literal), true
	}
	f.signs.number(key, literal)
	if !f.plain && differs(key) {
		return blurred, true
	}
	return numberDigest(literal), true
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
	if n < len(text) && text[n]|0x20 == 'e' {
		if n++; n < len(text) && (text[n] == '+' || text[n] == '-') {
			n++
		}
		more := digits(text[n:])
		if more == 0 {
			return 0
		}
		n += more
	}
	return n
}

// numberDigest takes a number by its value, so that 1, 1.0 and 1e0 are one. Integers are compared whole, others as
// float64.
func numberDigest(literal []byte) uint64 {
	if bytes.IndexAny(literal, ".eE-") < 0 {
		return sum('#', literal)
	}
	value, err := strconv.ParseFloat(string(literal), 64)
	var memory [32]byte
	switch {
	case err != nil || math.Abs(value) >= 1<<53:
		return sum('#', literal)
	case value == math.Trunc(value):
		return sum('#', strconv.AppendInt(memory[:0], int64(value), 10))
	}
	return mix(math.Float64bits(value), '#')
}
