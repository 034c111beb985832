package watchdoghttp

import (
	"bytes"
	"net/http"
	"strings"
)

// EventStream is a ready-made [Transport].Alive for server-sent events: comments (": keep-alive"), empty lines, lines
// that only set an ID or a retry time, and events of type ping are no signs of life. All else is: an event from its
// first byte on, without waiting for its end. The type of a ping has to come before its data, as servers send it.
//
// For a response that is not of type text/event-stream, or is compressed where it is read, it returns nil: every
// chunk is a sign of life then. What it returns keeps at most 12 bytes of a line and allocates nothing. A ping or
// 4 KiB of one line cost about half a microsecond. It is for one body, and one goroutine at a time.
func EventStream(resp *http.Response) func(chunk []byte) bool {
	mediaType, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	encoding := resp.Header.Get("Content-Encoding")
	if !strings.EqualFold(strings.TrimSpace(mediaType), "text/event-stream") ||
		encoding != "" && !strings.EqualFold(encoding, "identity") {
		return nil
	}
	return new(eventLines).alive
}

// A lineKind is what is known about a line.
type lineKind int

const (
	lineUnknown lineKind = iota // too little of it has come
	lineQuiet                   // no sign of life, whatever follows
	lineAlive                   // each byte is a sign of life
)

// The byte order mark, and the longest line that has to be kept to know its kind, with the byte after it.
const (
	byteOrderMark = "\xef\xbb\xbf"
	longestHead   = len("event: ping") + 1
)

// eventLines is the state of a stream of server-sent events. Whether a byte is a sign of life depends only on those
// before it, never on how they were cut into chunks.
type eventLines struct {
	head    [longestHead]byte // of the line, while its kind is unknown
	length  int
	kind    lineKind
	ping    bool // the event is of type ping
	begun   bool // a byte order mark may no longer come
	afterCR bool // a line feed that comes now ends no line: it is half of an end
}

// alive reports whether a byte of the chunk is a sign of life.
func (e *eventLines) alive(chunk []byte) bool {
	alive := false
	for i := 0; i < len(chunk); {
		switch b := chunk[i]; {
		case b == '\r' || b == '\n':
			alive = e.endLine(b) || alive
			i++
			continue
		case e.kind == lineUnknown:
			e.add(b)
			i++
		default:
			i += restOfLine(chunk[i:])
		}
		e.afterCR = false
		alive = alive || e.kind == lineAlive
	}
	return alive
}

// restOfLine is the length of what comes before the line's end, or of a part of it: it looks at one part at a time, so
// that many short lines before a far line feed do not cost the square of their number.
func restOfLine(chunk []byte) int {
	chunk = chunk[:min(len(chunk), 512)]
	for _, end := range []byte{'\n', '\r'} {
		if n := bytes.IndexByte(chunk, end); n >= 0 {
			chunk = chunk[:n]
		}
	}
	return len(chunk)
}

// add adds a byte to a line of unknown kind.
func (e *eventLines) add(b byte) {
	e.head[e.length] = b
	e.length++
	switch line := string(e.head[:e.length]); {
	case e.begun || !strings.HasPrefix(byteOrderMark, line):
		e.kind = e.judge(line)
	case line == byteOrderMark:
		e.length, e.begun = 0, true
	}
}

// endLine reports whether the end of the line made it a sign of life.
func (e *eventLines) endLine(b byte) bool {
	if b == '\n' && e.afterCR {
		e.afterCR = false
		return false
	}
	alive := e.kind == lineUnknown && e.judgeWhole(string(e.head[:e.length])) == lineAlive
	e.length, e.kind, e.begun, e.afterCR = 0, lineUnknown, true, b == '\r'
	return alive
}

// judge is the kind of a line of which this much has come.
func (e *eventLines) judge(line string) lineKind {
	switch {
	case line[0] == ':' || line == "id:" || line == "retry:":
		return lineQuiet
	case strings.HasPrefix("event: ping", line) || strings.HasPrefix("event:ping", line) ||
		strings.HasPrefix("id:", line) || strings.HasPrefix("retry:", line):
		return lineUnknown
	}
	return e.judgeField(line)
}

// judgeWhole is the kind of a line of which no more comes. An empty one ends the event.
func (e *eventLines) judgeWhole(line string) lineKind {
	switch line {
	case "":
		e.ping = false
		return lineQuiet
	case "id", "retry":
		return lineQuiet
	case "event: ping", "event:ping":
		e.ping = true
		return lineQuiet
	}
	return e.judgeField(line)
}

// judgeField is the kind of any other line: what its event is. The last type of an event is the one that counts.
func (e *eventLines) judgeField(line string) lineKind {
	if line == "event" || strings.HasPrefix(line, "event:") {
		e.ping = false
	}
	if e.ping {
		return lineQuiet
	}
	return lineAlive
}
