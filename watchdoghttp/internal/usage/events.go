package usage

import "bytes"

// events splits a stream of server-sent events into the JSON of their data, which it gives to the scanner. A line ends
// with a line feed, after a carriage return or not. A lone carriage return ends none: the clients of model APIs do not
// read such lines either.
//
// Most events of a stream are deltas without usage. Where an event begins, all that are whole in the chunk, up to the
// last one before an object named usage, are skipped without a look at their lines. What that leaves out has no effect
// on the tally: an event without such an object never has.
type events struct {
	scan *scanner

	field   fieldState
	matched int  // bytes of dataField
	line    bool // the line has a byte beside a carriage return
	data    bool // the event has a line of data
	begun   bool // the line has a byte
}

type fieldState uint8

const (
	fieldName fieldState = iota
	fieldData
	fieldOther
)

const dataField = "data:"

func (e *events) feed(p []byte) {
	whole, usage, lineFeed := -1, -1, -1 // the end of the last whole event, the next usage, the next line feed
	for i := 0; i < len(p); {
		if e.between() && i > usage {
			if whole < 0 {
				whole = i + wholeEvents(p[i:])
			}
			i, usage = skip(p, i, whole)
		}
		if i > lineFeed {
			lineFeed = i + lineLength(p[i:])
		}
		e.feedLine(p[i:lineFeed])
		if i = lineFeed; i < len(p) {
			e.endLine()
			i++
		}
	}
}

// skip returns where to go on after the events that need no look, and where the next usage is.
func skip(p []byte, from, whole int) (to, usage int) {
	if from >= whole {
		return from, len(p)
	}
	if usage = from + findUsage(p[from:whole]); usage == whole {
		return whole, len(p)
	}
	return from + wholeEvents(p[from:usage]), usage
}

// between reports whether the next byte begins an event.
func (e *events) between() bool { return !e.begun && !e.data }

// feedLine takes a part of a line.
func (e *events) feedLine(p []byte) {
	if len(p) == 0 {
		return
	}
	e.line = e.line || e.begun || len(p) > 1 || p[0] != '\r'
	e.begun = true
	for len(p) > 0 && e.field == fieldName {
		e.match(p[0])
		p = p[1:]
	}
	if e.field == fieldData {
		e.scan.feed(p)
	}
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
	e.field, e.matched, e.line, e.begun = fieldName, 0, false, false
}

// lineLength is the length of what comes before the line feed.
func lineLength(p []byte) int {
	if n := bytes.IndexByte(p, '\n'); n >= 0 {
		return n
	}
	return len(p)
}

// wholeEvents returns the length of the events that end in p, which begins with one. It looks near the end first: there
// the last one ends if they are short, and if they are long there are few lines.
func wholeEvents(p []byte) int {
	const near = 256
	if from := len(p) - near; from > 0 {
		if n := lastEmptyLine(p, from); n > 0 {
			return n
		}
	}
	return lastEmptyLine(p, 0)
}

// lastEmptyLine returns the end of the last empty line that ends behind from, 0 if there is none.
func lastEmptyLine(p []byte, from int) (end int) {
	for {
		n := bytes.IndexByte(p[from:], '\n')
		if n < 0 {
			return end
		}
		if from += n + 1; endsEmptyLine(p[:from-1]) {
			end = from
		}
	}
}

// endsEmptyLine reports whether a line feed after p, which begins with a line, ends an empty one.
func endsEmptyLine(p []byte) bool {
	n := len(p)
	if n > 0 && p[n-1] == '\r' {
		n--
	}
	return n == 0 || p[n-1] == '\n'
}
