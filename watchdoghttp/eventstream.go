package watchdoghttp

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
)

// EventStream is a ready-made [Transport].Alive for streams of server-sent events and of JSON values. Their content is
// a sign of life, and what only keeps a connection open is none:
//
//   - comments (": keep-alive"), empty lines, lines that only set an ID or a retry time
//   - events without data, or with nothing but whitespace as data
//   - events whose name, or the "type" in whose data, is ping, keepalive, keep-alive or heartbeat
//   - whitespace between JSON values and within them, and objects of such a type, of at most 4 KiB
//
// docs/streams.md has who sends what. An event or an object is a sign when it ends, or from the 257th byte of its data
// on. What is malformed, or is not known, is content.
//
// It is for the types text/event-stream and application/json, those that end in +json, and application/x-ndjson,
// ndjson, jsonl, x-jsonlines and json-seq. For any other response, and one that is compressed where it is read, it
// returns nil: every chunk is a sign of life then. What it returns keeps a few words of what came, whatever comes, and
// allocates nothing; an event, or 4 KiB of one line, costs about half a microsecond. It is for one body, and one
// goroutine at a time.
func EventStream(resp *http.Response) func(chunk []byte) bool {
	if encoding := resp.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return nil
	}
	mediaType, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	mediaType = strings.ToLower(strings.TrimSpace(mediaType))
	subtype, isApplication := strings.CutPrefix(mediaType, "application/")
	switch {
	case mediaType == "text/event-stream":
		return new(eventLines).alive
	case isApplication && slices.Contains(lineTypes, subtype):
		return (&jsonValues{lines: true}).alive
	case isApplication && (subtype == "json" || strings.HasSuffix(subtype, "+json")):
		return new(jsonValues).alive
	}
	return nil
}

// lineTypes are the types of JSON values of which each is on a line of its own.
var lineTypes = []string{"x-ndjson", "ndjson", "jsonl", "x-jsonlines", "json-seq"}

// keepAlives are the names of events, and the types in their data, that only keep a connection open.
var keepAlives = []string{
	"ping",       // Anthropic: docs.anthropic.com/en/docs/build-with-claude/streaming
	"keepalive",  // OpenAI, Responses: github.com/openai/openai-node/issues/1964
	"keep-alive", // Firebase: firebase.google.com/docs/reference/rest/database
	"heartbeat",  // open-responses-server: github.com/teabranch/open-responses-server/pull/64
}

// A keep-alive is short. Up to undecided bytes what follows may decide what data is; an object of more than longest
// bytes is content, whatever its type.
const (
	undecided = 256
	longest   = 4096
)

// A word is the begin of a word: enough to tell those that are known from all others.
type word struct {
	text   [len("keep-alive") + 1]byte
	length int
}

func (w *word) add(text ...byte) { w.length += copy(w.text[w.length:], text) }

func (w *word) is(text string) bool { return string(w.text[:w.length]) == text }

func (w *word) keepsAlive() bool { return slices.ContainsFunc(keepAlives, w.is) }

// A field is what is known about a line.
type field int

const (
	fieldUnknown field = iota // too little of it has come
	fieldQuiet                // a comment, an ID, a retry time
	fieldEvent
	fieldData
	fieldOther // none that the standard knows
)

const byteOrderMark = "\xef\xbb\xbf"

// eventLines is the state of a stream of server-sent events. Whether a byte is a sign of life depends only on those
// before it, never on how they were cut into chunks.
type eventLines struct {
	field   field
	name    string // what the name of an unknown field can be, and how much of it has come
	length  int
	inValue bool // past the space that a value may begin with
	begun   bool // a byte order mark may no longer come
	afterCR bool // a line feed that comes now ends no line: it is half of an end

	event   word       // the name on the line at hand
	quiet   bool       // by its name, the event only keeps the connection open
	data    jsonValues // of the event
	content bool       // some of the data is
	size    int        // of the data
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
		case e.field == fieldUnknown:
			alive = e.head(b) || alive
			i++
		default:
			n := upTo(chunk[i:], '\n', '\r')
			alive = e.value(chunk[i:i+n]) || alive
			i += n
		}
		e.afterCR = false
	}
	return alive
}

// upTo is the length of what comes before one of the ends, or of a part of it: it looks at one part at a time, so that
// many short lines before a far line feed do not cost the square of their number.
func upTo(chunk []byte, ends ...byte) int {
	chunk = chunk[:min(len(chunk), 512)]
	for _, end := range ends {
		if n := bytes.IndexByte(chunk, end); n >= 0 {
			chunk = chunk[:n]
		}
	}
	return len(chunk)
}

// head reads on in the name of a field. It reports whether that made the line a sign of life.
func (e *eventLines) head(b byte) bool {
	switch {
	case b == ':':
		e.field = e.named()
	case e.length == 0 && !e.expect(b), e.length == len(e.name), e.name[e.length] != b:
		e.field = fieldOther
	default:
		e.length++
		if e.name == byteOrderMark && e.length == len(e.name) {
			e.length, e.begun = 0, true
		}
	}
	return e.field == fieldOther && !e.quiet
}

// expect finds the field whose name begins so.
func (e *eventLines) expect(b byte) bool {
	switch {
	case b == 'd':
		e.name = "data"
	case b == 'e':
		e.name = "event"
	case b == 'i':
		e.name = "id"
	case b == 'r':
		e.name = "retry"
	case b == byteOrderMark[0] && !e.begun:
		e.name = byteOrderMark
	default:
		return false
	}
	return true
}

// named is the field whose name has come.
func (e *eventLines) named() field {
	switch {
	case e.length == 0: // a comment
		return fieldQuiet
	case e.length < len(e.name) || e.name == byteOrderMark:
		return fieldOther
	case e.name == "event":
		return fieldEvent
	case e.name == "data":
		return fieldData
	}
	return fieldQuiet
}

// value reads on in the value of a field. It reports whether that is a sign of life.
func (e *eventLines) value(part []byte) bool {
	if !e.inValue {
		e.inValue = true
		if part[0] == ' ' && e.field != fieldOther {
			part = part[1:]
		}
	}
	switch e.field {
	case fieldEvent:
		e.event.add(part...)
	case fieldData:
		return e.more(part)
	case fieldOther:
		return !e.quiet
	}
	return false
}

// more takes data. It reports whether that is of an event that is a sign of life before its end.
func (e *eventLines) more(part []byte) bool {
	if !e.content {
		_, e.content = e.data.next(part)
	}
	e.size += len(part)
	return len(part) > 0 && e.size > undecided && e.content && !e.quiet
}

// endLine reports whether the end of the line is a sign of life: that of a line that ends an event with content, or has
// no known field.
func (e *eventLines) endLine(b byte) (alive bool) {
	if b == '\n' && e.afterCR {
		e.afterCR = false
		return false
	}
	switch {
	case e.field == fieldUnknown && e.length == 0:
		alive = e.endEvent()
	case e.field == fieldUnknown:
		e.field = e.named()
		alive = e.field == fieldOther && !e.quiet
	}
	switch e.field {
	case fieldEvent:
		e.quiet = e.event.keepsAlive()
		e.event.length = 0
	case fieldData:
		e.data.add('\n') // it is what joins it to the next one
	}
	e.field, e.length, e.inValue, e.begun, e.afterCR = fieldUnknown, 0, false, true, b == '\r'
	return alive
}

// endEvent reports whether the event that ends is a sign of life.
func (e *eventLines) endEvent() bool {
	alive := (e.content || e.data.pending()) && !e.quiet
	e.quiet, e.content, e.size, e.data = false, false, 0, jsonValues{}
	return alive
}
