package usage

import "bytes"

// events splits a stream of server-sent events into the JSON of their data, which it gives to the scanner.
//
// Most events of a stream are deltas without usage. Where an event begins, all events of the chunk up to the last one
// before the next object named usage are skipped without a look at their lines. What that leaves out has no effect on
// the tally: an event without such an object never has. It is the difference between a microsecond and ten for 4 KiB.
type events struct {
	scan *scanner

	field   fieldState
	matched int  // bytes of dataField
	line    bool // the line has a byte
	data    bool // the event has a line of data
	afterCR bool // a line feed that comes now ends no line: it is half of an end
}

type fieldState uint8

const (
	fieldName fieldState = iota
	fieldData
	fieldOther
)

const dataField = "data:"

func (e *events) feed(p []byte) {
	usage, skipped := -1, false
	for i := 0; i < len(p); {
		if e.between() && i > usage {
			usage, skipped = i+findUsage(p[i:]), false
		}
		if e.between() && !skipped {
			i, skipped = i+wholeEvents(p[i:usage]), true
			if i == len(p) {
				return
			}
		}
		i += e.some(p[i:])
	}
}

// between reports whether the next byte begins an event.
func (e *events) between() bool { return !e.line && !e.data && !e.afterCR }

// some takes a byte, or the rest of a line, and returns how long that is.
func (e *events) some(p []byte) int {
	switch b := p[0]; {
	case b == '\n' && e.afterCR:
		e.afterCR = false
		return 1
	case b == '\n' || b == '\r':
		e.endLine()
		e.afterCR = b == '\r'
		return 1
	}
	e.line, e.afterCR = true, false
	if e.field == fieldName {
		e.match(p[0])
		return 1
	}
	n := lineLength(p)
	if e.field == fieldData {
		e.scan.feed(p[:n])
	}
	return n
}

// lineLength is the length of what comes before the end of the line, or of a part of it: it looks at one part at a
// time, so that many lines before a far line feed do not cost the square of their number.
func lineLength(p []byte) int {
	p = p[:min(len(p), 8<<10)]
	if n := bytes.IndexByte(p, '\n'); n >= 0 {
		p = p[:n]
	}
	if n := bytes.IndexByte(p, '\r'); n >= 0 {
		p = p[:n]
	}
	return len(p)
}

// match compares a byte of the field's name.
func (e *events) match(b byte) {
	if b != dataField[e.matched] {
		e.field = fieldOther
		return
	}
	if e.matched++; e.matched < len(dataField) {
		return
	}
	e.field = fieldData
	if e.data {
		e.scan.joinLine()
	}
	e.data = true
}

// endLine ends a line; an empty one ends the event.
func (e *events) endLine() {
	if !e.line {
		e.data = false
		e.scan.reset()
	}
	e.field, e.matched, e.line = fieldName, 0, false
}

// findUsage returns where the first object begins whose key can be that of the usage, or the length if there is none.
func findUsage(p []byte) int {
	for from := 0; ; {
		n := bytes.IndexByte(p[from:], '{')
		if n < 0 {
			return len(p)
		}
		if from += n; isUsage(p[:from]) {
			return from
		}
		from++
	}
}

// isUsage reports whether the bytes before a brace can end with the key of a usage. One with an escape can.
func isUsage(p []byte) bool {
	i := lastToken(p, len(p))
	if i < 0 || p[i] != ':' {
		return false
	}
	if i = lastToken(p, i); i < 0 || p[i] != '"' {
		return false
	}
	for end := i; i > 0 && end-i <= longestText; {
		i--
		switch p[i] {
		case '\\':
			return i < end-1 // a quote after a backslash ends no key that matters
		case '"':
			key := p[i+1 : end]
			return string(key) == "usage" || string(key) == "usageMetadata"
		}
	}
	return false
}

// lastToken returns where the last byte before i is that is no space, or -1.
func lastToken(p []byte, i int) int {
	for i--; i >= 0 && isSpace(p[i]); i-- {
	}
	return i
}

// wholeEvents returns the length of the events that end in p, which begins with one. It looks at the end first: there
// an empty line is near if the events are short, and if they are long there are few lines.
func wholeEvents(p []byte) int {
	const near = 512
	from := max(0, len(p)-near)
	for i := len(p) - 1; i > from; i-- {
		if p[i] == '\n' && endsEmptyLine(p[:i]) {
			return i + 1
		}
	}
	whole := 0
	for from := 0; ; {
		n := bytes.IndexByte(p[from:], '\n')
		if n < 0 {
			return whole
		}
		if from += n + 1; endsEmptyLine(p[:from-1]) {
			whole = from
		}
	}
}

// endsEmptyLine reports whether a line feed after p ends an empty line.
func endsEmptyLine(p []byte) bool {
	n := len(p)
	return n > 0 && p[n-1] == '\n' || n > 1 && p[n-1] == '\r' && p[n-2] == '\n'
}
