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
	"math/bits"
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
	broken   bool   // it is no JSON
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
	r.in, r.at, r.depth, r.broken, r.muted, r.listener = text, 0, 0, false, false, l
	if digest := r.value(nil); !r.broken && r.space() == 0 {
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

// fail notes that the text is no JSON, and skips the rest of it.
func (r *Reader) fail() uint64 {
	r.broken, r.at = true, len(r.in)
	return 0
}

// value reads one value, the one of that key, and returns its digest.
func (r *Reader) value(key []byte) (digest uint64) {
	switch b := r.space(); b {
	case '{', '[':
		r.at++
		if r.depth++; r.depth > maxDepth {
			return r.fail()
		}
		digest = r.nested(b, key)
		r.depth--
		return digest
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

func (r *Reader) literal(name string, key []byte) uint64 {
	if !bytes.HasPrefix(r.in[r.at:], []byte(name)) {
		return r.fail()
	}
	r.at += len(name)
	if !r.muted {
		r.listener.Literal(key, name)
	}
	return Mix(uint64(name[0]), 'l')
}

// nested reads a list, or an object, whose members are added up, because their order makes no difference.
func (r *Reader) nested(open byte, key []byte) (digest uint64) {
	object, end := open == '{', open+2
	empty := r.space() == end
	switch {
	case r.muted:
	case object:
		r.listener.Object(key)
	case empty:
		r.listener.List(0)
	default:
		r.listener.List(1)
	}
	if empty {
		r.at++
		return Mix(0, uint64(open))
	}
	for {
		if object {
			digest += r.member()
		} else {
			digest = Mix(digest, r.value(key))
		}
		switch r.next() {
		case ',':
		case end:
			return Mix(r.ended(object, digest), uint64(open))
		default:
			return r.fail()
		}
	}
}

// ended returns the digest of what is in a list, or in an object without why its command is run.
func (r *Reader) ended(object bool, digest uint64) uint64 {
	switch {
	case object && r.runs && r.depth == 1 && !r.outcome:
		return digest - r.noise
	case !object && !r.muted:
		r.listener.List(-1)
	}
	return digest
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

func (r *Reader) next() byte {
	b := r.space()
	r.at++
	return b
}

func (r *Reader) member() (digest uint64) {
	key := r.key()
	if r.outcome && !r.muted && r.Volatile.has(key) {
		r.muted = true
		r.value(key)
		r.muted = false
		return 0
	}
	digest = Mix(Sum('k', key), r.value(key))
	if r.depth == 1 && !r.outcome {
		r.note(key, digest)
	}
	return digest
}

// key reads the key of a member and the colon after it.
func (r *Reader) key() (key []byte) {
	if r.space() != '"' {
		r.fail()
		return nil
	}
	if key = r.stringBytes(); r.next() != ':' {
		r.fail()
	}
	if len(r.spare) > 0 && len(key) > 0 && &key[0] == &r.spare[0] {
		key = bytes.Clone(key) // which other strings take the memory of
	}
	return key
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

// Mix returns the digest of two digests. 64 bits tell some hundred pairs apart, and nobody gains by two that are the
// same: who wants that can do the same. SHA-256 takes five times as long as all else.
func Mix(a, b uint64) uint64 {
	high, low := bits.Mul64(a^0x9e3779b97f4a7c15, b^0xd6e8feb86659fd93)
	return high ^ low
}

// Sum returns the digest of a text that comes after what has the first one.
func Sum(first uint64, text []byte) uint64 {
	n := uint64(len(text))
	for len(text) >= 16 {
		first = Mix(first^binary.LittleEndian.Uint64(text), binary.LittleEndian.Uint64(text[8:]))
		text = text[16:]
	}
	var rest [16]byte
	copy(rest[:], text)
	return Mix(Mix(first^binary.LittleEndian.Uint64(rest[:]), binary.LittleEndian.Uint64(rest[8:])), n)
}
