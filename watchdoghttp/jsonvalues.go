package watchdoghttp

import "strings"

// A kind is what is known about a JSON value.
type kind int

const (
	kindUnknown kind = iota // an object whose type has not come
	kindQuiet               // an object of a type that only keeps the connection open
	kindContent
)

// jsonValues is the state of a stream of JSON values. Like [eventLines] it does not depend on chunks. It checks
// nothing: what is malformed is content.
type jsonValues struct {
	lines    bool // a line feed ends a value, whatever it lacks
	kind     kind // of the value at hand
	depth    int  // of objects and arrays
	size     int  // of the value, without whitespace, and as far as it matters
	inString bool
	escaped  bool // the next byte of the string

	// Of the object itself, not of what is in it:
	last    word // the last string
	isType  bool // the member's name is type
	atValue bool // past the member's colon
}

// alive reports whether a byte of the chunk is a sign of life.
func (j *jsonValues) alive(chunk []byte) bool {
	alive := false
	for len(chunk) > 0 {
		n, sign := j.next(chunk)
		alive = alive || sign
		chunk = chunk[n:]
	}
	return alive
}

// next takes bytes up to the first sign of life. It returns how many these are, and whether there is one.
func (j *jsonValues) next(part []byte) (n int, alive bool) {
	for n < len(part) && !alive {
		if plain := j.inText(part[n:]); plain > 0 {
			n += plain
			alive = j.counts(plain)
			continue
		}
		alive = j.add(part[n])
		n++
	}
	return n, alive
}

// inText passes over plain bytes of a string, and returns how many.
func (j *jsonValues) inText(part []byte) (n int) {
	if !j.inString || j.escaped {
		return 0
	}
	n = upTo(part, '"', '\\', '\n')
	j.remember(part[:n])
	return n
}

func (j *jsonValues) remember(text []byte) {
	if j.depth == 1 {
		j.last.add(text...)
	}
}

// add reports whether a byte is a sign of life.
func (j *jsonValues) add(b byte) bool {
	switch {
	case b == '\n' && j.lines && (j.depth > 0 || j.inString):
		return j.end()
	case j.inString:
		j.mark(b)
	case strings.IndexByte(whitespace, b) >= 0:
		return false
	case j.depth <= 1 && (b == '}' || b == ']'):
		return j.end()
	default:
		j.token(b)
	}
	return j.counts(1)
}

// whitespace is JSON's, and the record separator that begins a value in a sequence of them (RFC 7464).
const whitespace = " \t\n\r\x1e"

// token takes a byte outside of strings.
func (j *jsonValues) token(b byte) {
	if j.depth == 0 && b != '{' {
		j.kind = kindContent
	}
	switch b {
	case '"':
		j.inString, j.last.length = true, 0
	case '{', '[':
		if j.depth == 0 && b == '{' {
			j.kind, j.size = kindUnknown, 0
		}
		j.depth++
	case '}', ']':
		j.depth--
	case ':':
		if j.depth == 1 {
			j.isType, j.atValue = j.last.is("type"), true
		}
	case ',':
		if j.depth == 1 {
			j.isType, j.atValue = false, false
		}
	}
}

// mark takes a byte of a string that is not plain.
func (j *jsonValues) mark(b byte) {
	if b == '"' && !j.escaped {
		j.inString = false
		j.decide()
		return
	}
	j.escaped = b == '\\' && !j.escaped
	j.remember([]byte{b})
}

// decide makes an object content, or quiet, by its type, if that was the string that ended.
func (j *jsonValues) decide() {
	if j.kind != kindUnknown || j.depth != 1 || !j.atValue || !j.isType {
		return
	}
	j.kind = kindContent
	if j.last.keepsAlive() {
		j.kind = kindQuiet
	}
}

// counts adds bytes to a value, and reports whether that is content.
func (j *jsonValues) counts(n int) bool {
	j.size += n
	if j.kind == kindUnknown && j.size > undecided || j.size > longest {
		j.kind = kindContent
	}
	return j.kind == kindContent
}

// end ends a value, and reports whether that is a sign of life.
func (j *jsonValues) end() bool {
	content := j.kind != kindQuiet
	*j = jsonValues{lines: j.lines}
	return content
}

// pending reports whether a value that has begun can be content.
func (j *jsonValues) pending() bool { return j.depth > 0 && j.kind != kindQuiet }
