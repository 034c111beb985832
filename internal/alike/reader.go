// Package alike returns digests of the inputs and outcomes of calls of tools that are the same for what is alike: for
// JSON of the same values, whatever the order of members and the spelling of strings and numbers, and for outcomes that
// differ in a time, the ID of a process or something else of which nothing depends. It notes what package loop asks
// about, and knows nothing of loops.
//
// JSON is read by hand and not by [encoding/json], which needs memory for each value of every step of every run.
package alike

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

// maxKept is how much memory a Reader keeps between two turns, in bytes.
const maxKept = 64 << 10

// maxSaid is how much of the texts of an outcome is kept to compare failures, in bytes.
const maxSaid = 4 << 10

// blurred is the digest of what is left out.
const blurred = 1

// A Listener is told what a text has, where it stands. The key is that of the field, also for the items of a list.
type Listener interface {
	// Reset is called where it turns out that the text is no JSON.
	Reset()
	Literal(key []byte, name string)
	Number(key, literal []byte)
	String(depth int, key, text []byte)
	// Text is all of a text that is no JSON.
	Text(text []byte)
	// List is called with 1 where a list begins, with -1 where it ends, and with 0 for one that is empty.
	List(step int)
	Object(key []byte)
}

// A Reader reads the inputs and outcomes of calls. Its zero value is ready, and leaves nothing out but what Why names.
type Reader struct {
	Volatile Names // fields and lines that are left out of outcomes

	listener Listener
	muted    bool // in a field that is left out
	outcome  bool
	in       []byte
	at       int
	depth    int
	spare    []byte // a string that has escapes
	said     []byte // the beginning of the texts of an outcome
	noise    uint64 // of the members of the outermost object that say why a command is run
	runs     bool   // it has a command
	placed   bool   // a number says where to read
	fixed    uint64 // of the outermost object without such numbers
}

// A Names is a set of names.
type Names struct {
	set     map[string]bool
	lengths uint64 // a bit for each length that one has, up to 63
}

// Add adds names.
func (n *Names) Add(names ...string) {
	if n.set == nil {
		n.set = map[string]bool{}
	}
	for _, name := range names {
		n.set[name] = true
		n.lengths |= 1 << min(len(name), 63)
	}
}

func (n *Names) has(name []byte) bool {
	return n.lengths>>min(len(name), 63)&1 != 0 && n.set[string(name)]
}

// Input returns the digest of an input, which is not 0.
func (r *Reader) Input(text []byte, l Listener) uint64 {
	r.fixed, r.noise, r.runs, r.placed, r.outcome = 0, 0, false, false, false
	return max(r.read(text, l), 1)
}

// Outcome returns the digest of an outcome, which is not 0.
func (r *Reader) Outcome(text []byte, l Listener) uint64 {
	r.said, r.outcome = r.said[:0], true
	return max(r.read(text, l), 1)
}

// Place reports whether the last input has a number that says where to read, and returns the digest of all else.
func (r *Reader) Place() (fixed uint64, placed bool) { return r.fixed, r.placed }

// Shrink drops memory that only a large text needed.
func (r *Reader) Shrink() {
	if cap(r.spare) > maxKept {
		r.spare = nil
	}
	r.in, r.listener = nil, nil
}

func (r *Reader) read(text []byte, l Listener) uint64 {
	r.in, r.at, r.depth, r.muted, r.listener = text, 0, 0, false, l
	if digest, ok := r.value(nil); ok && r.space() == 0 {
		return digest
	}
	if r.muted, r.said = false, r.said[:0]; !r.outcome {
		r.fixed, r.placed = 0, false
	}
	l.Reset()
	l.Text(text)
	return Mix(r.text(text), 't')
}

// space skips white space and returns the next byte, or 0 at the end.
func (r *Reader) space() byte {
	for ; r.at < len(r.in); r.at++ {
		switch b := r.in[r.at]; b {
		case ' ', '\t', '\n', '\r':
		default:
			return max(b, 1) // a zero byte is not the end, and not JSON
		}
	}
	return 0
}

// value reads one value, the one of that key. It returns its digest, and whether it is JSON.
func (r *Reader) value(key []byte) (digest uint64, ok bool) {
	switch b := r.space(); b {
	case '{', '[':
		r.depth++
		r.at++
		if r.depth > maxDepth {
			return 0, false
		}
		if b == '{' {
			digest, ok = r.object(key)
		} else {
			digest, ok = r.array(key)
		}
		r.depth--
		return digest, ok
	case '"':
		return r.stringValue(key)
	case 't':
		return r.literal("true", key)
	case 'f':
		return r.literal("false", key)
	case 'n':
		return r.literal("null", key)
	default:
		return r.number(key)
	}
}

func (r *Reader) literal(name string, key []byte) (uint64, bool) {
	if !bytes.HasPrefix(r.in[r.at:], []byte(name)) {
		return 0, false
	}
	r.at += len(name)
	if !r.muted {
		r.listener.Literal(key, name)
	}
	return Mix(uint64(name[0]), 'l'), true
}

func (r *Reader) array(key []byte) (digest uint64, ok bool) {
	if r.space() == ']' {
		r.at++
		r.list(0)
		return Mix(0, '['), true
	}
	r.list(1)
	for {
		item, ok := r.value(key)
		if !ok {
			return 0, false
		}
		digest = Mix(digest, item)
		switch r.next() {
		case ',':
		case ']':
			r.list(-1)
			return Mix(digest, '['), true
		default:
			return 0, false
		}
	}
}

// Why reports whether a field beside a command says why it is run, or how, which a model words anew each time: those
// of Claude Code, Codex, Cursor and OpenHands.
func Why(key []byte) bool {
	switch string(key) {
	case "description", "explanation", "justification", "timeout", "timeout_ms", "yield_time_ms", "max_output_tokens",
		"with_escalated_permissions", "sandbox_permissions", "run_in_background", "security_risk":
		return true
	}
	return false
}

func (r *Reader) list(step int) {
	if !r.muted {
		r.listener.List(step)
	}
}

// next takes the byte after a value.
func (r *Reader) next() byte {
	b := r.space()
	r.at++
	return b
}

// object adds its members up, because their order makes no difference.
func (r *Reader) object(key []byte) (digest uint64, ok bool) {
	if !r.muted {
		r.listener.Object(key)
	}
	if r.space() == '}' {
		r.at++
		return Mix(0, '{'), true
	}
	for {
		member, ok := r.member()
		if !ok {
			return 0, false
		}
		digest += member
		switch r.next() {
		case ',':
		case '}':
			if r.runs && r.depth == 1 && !r.outcome {
				digest -= r.noise
			}
			return Mix(digest, '{'), true
		default:
			return 0, false
		}
	}
}

func (r *Reader) member() (digest uint64, ok bool) {
	key, ok := r.key()
	if !ok {
		return 0, false
	}
	if r.outcome && !r.muted && r.Volatile.has(key) {
		r.muted = true
		_, ok = r.value(key)
		r.muted = false
		return 0, ok
	}
	value, ok := r.value(key)
	digest = Mix(Sum('k', key), value)
	if r.depth == 1 && !r.outcome {
		r.note(key, digest)
	}
	return digest, ok
}

// key reads the key of a member and the colon after it.
func (r *Reader) key() (key []byte, ok bool) {
	if r.space() != '"' {
		return nil, false
	}
	if key, ok = r.stringBytes(); !ok || r.next() != ':' {
		return nil, false
	}
	if len(r.spare) > 0 && len(key) > 0 && &key[0] == &r.spare[0] {
		key = bytes.Clone(key) // which other strings take the memory of
	}
	return key, true
}

// note adds up those members of an input that are left out if it has a command, or if a number says where to read.
func (r *Reader) note(key []byte, digest uint64) {
	switch string(key) {
	case "command", "cmd", "query", "target_file": // the last two of Cursor
		r.runs = true
	}
	if Why(key) {
		r.noise += digest
	}
	if !r.placed || !namesPlace(key) {
		r.fixed += digest
	}
}

func (r *Reader) stringValue(key []byte) (uint64, bool) {
	text, ok := r.stringBytes()
	if !ok {
		return 0, false
	}
	if !r.muted {
		r.listener.String(r.depth, key, text)
	}
	digest := r.text(text)
	r.say([]byte{10})
	return Mix(digest, 's'), true
}

// stringBytes reads a string and returns what it means, which is valid until the next call.
func (r *Reader) stringBytes() ([]byte, bool) {
	start := r.at + 1
	i := r.plainUntil(start)
	if i < len(r.in) && r.in[i] == '"' {
		r.at = i + 1
		return r.in[start:i], true
	}
	r.spare = r.spare[:0]
	for i < len(r.in) && r.in[i] >= ' ' {
		r.spare = append(r.spare, r.in[start:i]...)
		if r.in[i] == '"' {
			r.at = i + 1
			return r.spare, true
		}
		n := r.escape(r.in[i+1:])
		if n == 0 {
			break
		}
		start = i + 1 + n
		i = r.plainUntil(start)
	}
	return nil, false
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

func (r *Reader) number(key []byte) (uint64, bool) {
	n := numberLength(r.in[r.at:])
	if n == 0 {
		return 0, false
	}
	literal := r.in[r.at : r.at+n]
	r.at += n
	place := !r.outcome && namesPlace(key)
	r.placed = r.placed || place
	if why := !r.outcome && Why(key); !r.muted && !place && !why {
		r.listener.Number(key, literal)
	}
	if r.outcome && differs(key) {
		return blurred, true
	}
	return numberDigest(literal), true
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
