package usage

import (
	"bytes"
	"strings"
)

// A State says how much of a response's usage was read.
type State uint8

// The states. Partial is a response that was cut off, or had its usage before its end: what was read is a part.
const (
	Nothing State = iota
	Partial
	Final
)

// A Result is what a [Reader] read.
type Result struct {
	State State
	Usage Usage
	// Model is the one that answered, by the response; it can be empty.
	Model string
	// Cleared is what the API cleared from the conversation before the model read it.
	Cleared int64
	// Cut says that an answer ended because it had as much as the request allows. Streams of Chat Completions say that
	// apart from their usage, and are not read for it.
	Cut bool
	// Rounds says that the API made other calls of a model besides, whose usage is in Usage, too.
	Rounds bool
	// Unread says what could not be read, if anything: then Usage is what came before it.
	Unread Reason
}

// A Reader reads the usage of one response from its body, which it is fed in order as it arrives: plain JSON, an array,
// or a stream of events, which it tells apart by themselves. It keeps counts and the names of the model and the tier,
// and nothing of the answer; its memory does not grow. What it reads does not depend on how the body was cut.
//
// It is for one goroutine at a time. End must be called.
type Reader struct {
	unread Reason
	zip    *gunzip // nil if the body is not compressed

	form   form
	last   []byte // of a stream that tells its end apart from its usage: what came last, since its usage
	marked int    // bytes of a byte order mark
	spaced bool   // the last byte before the body's first was no line end

	tally  tally
	scan   scanner
	events events
}

// A form is the form of a response.
type form uint8

const (
	formUnknown form = iota
	formJSON
	formEvents
)

const byteOrderMark = "\xef\xbb\xbf"

// NewReader returns a reader of a response of the API, whose body has that Content-Encoding. It reads gzip; of another
// encoding it reads nothing, and says so.
func NewReader(api API, encoding string) *Reader {
	r := &Reader{tally: tally{api: api}}
	r.scan.tally, r.scan.root = &r.tally, roots()[api]
	r.scan.reset()
	r.events.scan = &r.scan
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
	case "gzip", "x-gzip":
		r.zip = newGunzip(r.feed)
	default:
		r.unread = Encoded
	}
	return r
}

// Feed reads a chunk of the body. It neither changes nor keeps it.
func (r *Reader) Feed(chunk []byte) {
	switch {
	case r.unread != Readable:
	case r.zip == nil:
		r.feed(chunk)
	case !r.zip.feed(chunk):
		r.unread = Encoded
	}
}

// Done reports whether all of a response was read that its client waits for. It can be that it was and Done does not
// say so: then the end of the body says it.
func (r *Reader) Done() bool {
	t := &r.tally
	switch {
	case r.unread != Readable || !t.seen || t.malformed || !r.final(false):
		return false
	case t.api == Responses || r.form == formJSON:
		return true
	}
	end := lasts[t.api]
	return end != "" && bytes.Contains(r.last, []byte(end))
}

// lasts end the streams that tell their end apart from their usage, of which some gateways send more than one.
var lasts = [...]string{Anthropic: `"message_stop"`, Chat: "[DONE]", Gemini: ""}

// longestLast is more than what ends a stream is long, in bytes.
const longestLast = 128

// End ends the reading: whole says that the body was read to its end. It returns what was read. After it no other
// method may be called.
func (r *Reader) End(whole bool) Result {
	if r.zip != nil {
		r.zip.end()
	}
	t := &r.tally
	result := Result{Unread: r.unread}
	if t.malformed && result.Unread == Readable {
		result.Unread = Malformed
	}
	if !t.seen {
		return result
	}
	result.State, result.Usage, result.Model = Partial, t.usage(), t.total.model
	result.Cut = t.cut
	result.Cleared, result.Rounds = t.total.cleared, t.total.rounds.any
	if result.Unread == Readable && r.final(whole) {
		result.State = Final
	}
	return result
}

// final reports whether the last usage was that of the whole call. A stream of Chat Completions ends with usage and no
// choice; others' streams that have no end of their own have to be read to theirs.
func (r *Reader) final(whole bool) bool {
	t := &r.tally
	switch {
	case t.api == Responses:
		return t.over
	case r.form == formJSON:
		return t.whole || !t.array
	case t.api == Anthropic:
		return t.over
	}
	return whole || t.api == Chat && t.empty
}

func (r *Reader) feed(p []byte) {
	for len(p) > 0 && r.form == formUnknown {
		if r.sniff(p[0]) {
			p = p[1:]
		}
	}
	switch {
	case len(p) == 0:
	case r.form == formJSON:
		r.scan.feed(p)
	default:
		r.events.feed(p)
		if r.tally.seen && r.final(false) {
			r.last = append(r.last, p[max(0, len(p)-longestLast):]...)
			r.last = r.last[max(0, len(r.last)-longestLast):]
		}
	}
}

// sniff looks at a byte before the form is known, and reports whether it is no part of the body proper.
func (r *Reader) sniff(b byte) bool {
	other := r.marked > 0 && r.marked < len(byteOrderMark) // than a mark, unless it goes on
	switch {
	case !r.spaced && r.marked < len(byteOrderMark) && b == byteOrderMark[r.marked]:
		r.marked++
		return true
	case other:
	case isSpace(b):
		r.spaced = b == ' ' || b == '\t'
		return true
	case b == '{' || b == '[':
		r.form = formJSON
		return false
	}
	r.form = formEvents
	if other || r.spaced {
		r.events.feed([]byte(" ")) // the line has begun already, and not with a field
	}
	return false
}

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
	for at := -1; ; {
		next := bytes.IndexByte(p[at+1:], 'u')
		if next < 0 {
			return len(p)
		}
		if at += 1 + next; isSign(p[:at], p[at+1:]) {
			return wholeEvents(p[:at])
		}
	}
}

// isSign reports whether a "u" between the two can be in the key of a usage: it begins the key, or an escape that
// stands for a letter of that.
func isSign(before, after []byte) bool {
	if !begins(after, "sage") {
		return begins(after, "00") && ends(before, `\`)
	}
	return ends(before, `"`) && !ends(before, `\"`) && !begins(after, `sage":null`)
}

// begins is bytes.HasPrefix, but compares with a constant at once. Each event of some streams has its usage, as null.
func begins(p []byte, with string) bool { return len(p) >= len(with) && string(p[:len(with)]) == with }

func ends(p []byte, with string) bool {
	return len(p) >= len(with) && string(p[len(p)-len(with):]) == with
}

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
