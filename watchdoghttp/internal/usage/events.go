package usage

import "bytes"

// events splits a stream of server-sent events into the JSON of their data, which it gives to the scanner. A line ends
// with a line feed, after a carriage return or not. A lone carriage return ends none: the clients of model APIs do not
// read such lines either.
//
// Most events of a stream are deltas without usage. Where an event begins, all that are whole in the chunk, up to the
// first one that names it, are skipped without a look at their lines. What that leaves out has no effect on the tally:
// an event without usage never has.
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
	const step = 8 << 10 // what is near is found soon, however much comes after it
	for ; len(p) > step; p = p[step:] {
		e.feedStep(p[:step])
	}
	e.feedStep(p)
}

func (e *events) feedStep(p []byte) {
	for len(p) > 0 {
		if !e.begun && !e.data { // an event begins
			p = p[needless(p):]
		}
		line, rest, ended := bytes.Cut(p, lineFeed)
		e.feedLine(line)
		if ended {
			e.endLine()
		}
		p = rest
	}
}

// needless returns the length of the whole events at the beginning of p that cannot have a usage.
func needless(p []byte) int {
	p = p[:wholeEvents(p)]
	for _, sign := range usageSigns {
		if at := bytes.Index(p, sign); at >= 0 {
			p = p[:at]
		}
	}
	return wholeEvents(p)
}

// usageSigns are in every event that has a usage: its key, or an escape that stands for a letter of that.
var usageSigns = [][]byte{[]byte("usage"), []byte(`\u00`)}

// wholeEvents returns the length of the events that end in p: up to the last empty line that comes after another one.
func wholeEvents(p []byte) int {
	for end := len(p); end > 0; {
		end = bytes.LastIndexByte(p[:end], '\n')
		if end > 0 && bytes.HasSuffix(bytes.TrimSuffix(p[:end], carriageReturn), lineFeed) {
			return end + 1
		}
	}
	return 0
}

var lineFeed, carriageReturn = []byte("\n"), []byte("\r")

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
		e.scan.feed(lineFeed)
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
