package transcript

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/seed62658d38/watchdog/loop"
)

// ErrFormat is wrapped by [Reader.Next] if what is read is not a session that this package knows, or too much of it is
// not. The text says what it is instead, if that is known, and what to do.
var ErrFormat = errors.New("not a session file that is known")

// A Format is a form in which sessions are kept.
type Format string

// The formats.
const (
	ClaudeCode Format = "Claude Code"
	Codex      Format = "Codex"
	OpenCode   Format = "opencode"
	SWEAgent   Format = "SWE-agent"
	Chat       Format = "chat messages"
)

// A Turn is what one message of a model called, with what came back, or what a person said. It keeps nothing of the
// Reader's memory.
type Turn struct {
	// Steps are the calls, or one step of class [loop.Person]. Their Class is empty otherwise.
	Steps []loop.Step
	// Agent is the ID of the sub-agent whose turn it is. Empty is the agent of the session itself.
	Agent string
	// Conversation is the number of the conversation, from 1. Only a file of chat messages has more than one. One that
	// has begun ends all before it.
	Conversation int
	// First is the number of the first of the calls among those of that agent in that conversation, from 1. A person's
	// turn has the number of the call after it.
	First int
	// Line is the number of the line on which the turn begins.
	Line int
}

// A Coverage counts what a [Reader] has read so far.
type Coverage struct {
	Format Format
	// Lines counts lines, or the elements of the list that a document has instead. Unknown are those that are not known,
	// or broken, or have the result of no call.
	Lines, Unknown int
	// Calls counts calls with a result, Unanswered those without. Persons counts the turns of persons.
	Calls, Unanswered, Persons int
	// Timed says whether there were times. Without them no Gap of a step is known, and the rules of gaps do nothing.
	Timed bool
	// Cut says that the last line or the document is incomplete, because it is being written or was cut off.
	Cut bool
}

// A Reader reads a session. It is not safe for concurrent use.
type Reader struct {
	in      *scanner
	started bool
	inList  bool     // in a list of messages
	inDoc   bool     // in an object, which is a line or has such a list
	keys    []string // of that object
	tooLong bool     // one of its fields was left out
	line    int      // of the value that is being read

	counts       Coverage
	ready        []Turn
	err          error
	conversation int
	elements     int // of the list or the lines of this conversation
	threads      map[string]*thread
	chain        chain
	text         textAgent
}

// NewReader returns a Reader of what r has. It reads ahead.
func NewReader(r io.Reader) *Reader {
	return &Reader{in: newScanner(r), conversation: 1, threads: map[string]*thread{}}
}

// Next returns the next turn, and [io.EOF] after the last one. Any other error is that of the reader, or wraps
// [ErrFormat]; there are no turns after it.
func (r *Reader) Next() (Turn, error) {
	for len(r.ready) == 0 && r.err == nil {
		if r.err = r.advance(); r.err != nil {
			r.endConversation()
			r.err = r.verdict(r.err)
		}
	}
	if len(r.ready) == 0 {
		return Turn{}, r.err
	}
	turn := r.ready[0]
	r.ready = r.ready[1:]
	return turn, nil
}

// Coverage returns the counts so far.
func (r *Reader) Coverage() Coverage { return r.counts }

// advance reads one more value.
func (r *Reader) advance() error {
	if !r.started {
		r.started = true
		if err := r.begin(); err != nil {
			return err
		}
	}
	if c := &r.counts; c.Format == "" && c.Unknown >= 100 {
		return errUnknown
	}
	r.in.kept = r.in.kept[:0]
	err := r.part()
	switch {
	case errors.Is(err, errTooLong):
		r.unknown()
		return nil
	case errors.Is(err, errBroken):
		r.unknown()
		r.inList, r.inDoc = false, false
		return r.in.recover()
	case errors.Is(err, io.EOF):
		r.counts.Cut = r.inList || r.inDoc || len(r.in.kept) > 0
	}
	return err
}

func (r *Reader) unknown() {
	r.counts.Lines++
	r.counts.Unknown++
}

var errUnknown = fmt.Errorf("%w: it has nothing of a session of Claude Code, Codex, opencode or SWE-agent, and no list "+
	"of chat messages", ErrFormat)

// verdict is the error at the end.
func (r *Reader) verdict(err error) error {
	c := &r.counts
	switch {
	case !errors.Is(err, io.EOF):
		return err
	case c.Lines == 0 && !c.Cut:
		return fmt.Errorf("%w: it is empty", ErrFormat)
	case c.Format == "" && c.Cut:
		return fmt.Errorf("%w: it is cut off before there was a line of one", ErrFormat)
	case c.Format == "":
		return errUnknown
	case c.Unknown*20 > c.Lines:
		return fmt.Errorf("%w: %d of its %d lines are not known as lines of %s; a newer version may have another form",
			ErrFormat, c.Unknown, c.Lines, c.Format)
	}
	return err
}

// begin looks at the first bytes.
func (r *Reader) begin() error {
	start, _ := r.in.in.Peek(6) // less than that is no such thing
	for _, other := range []struct{ bytes, is string }{
		{"\x28\xb5\x2f\xfd", "compressed by zstd; unpack it first, as with zstd -d"},
		{"\x1f\x8b", "compressed by gzip; unpack it first, as with gzip -d"},
		{"\xfd7zXZ\x00", "compressed by xz; unpack it first, as with xz -d"},
		{"BZh", "compressed by bzip2; unpack it first, as with bzip2 -d"},
		{"PK\x03\x04", "a zip archive; unpack it first, as with unzip"},
		{"SQLite", "a database; have the agent export the session"},
		{"\xff\xfe", "UTF-16; write it as UTF-8"},
		{"\xfe\xff", "UTF-16; write it as UTF-8"},
	} {
		if bytes.HasPrefix(start, []byte(other.bytes)) {
			return fmt.Errorf("%w: it is %s", ErrFormat, other.is)
		}
	}
	if bytes.HasPrefix(start, []byte("\xef\xbb\xbf")) {
		_, _ = r.in.in.Discard(3)
	}
	return nil
}

// part reads the next part: a line, an element of a list, or the fields of a document up to the list.
func (r *Reader) part() error {
	switch {
	case r.inList:
		return r.element()
	case r.inDoc:
		return r.fields()
	}
	b, err := r.in.next()
	if err != nil {
		return err
	}
	r.line = r.in.line
	switch b {
	case '{':
		r.inDoc, r.tooLong, r.keys = true, false, r.keys[:0]
		r.in.keep(b)
		return r.fields()
	case '[':
		r.inList = true
		r.in.keep(b)
		return nil
	}
	return errBroken
}

// fields reads the fields of an object up to its end, which makes it a line, or up to a list of messages, which makes
// it a document.
func (r *Reader) fields() error {
	for {
		b, err := r.in.next()
		switch {
		case err != nil:
			return err
		case b == '}':
			r.in.keep(b)
			return r.endObject()
		case b == ',' && len(r.keys) > 0:
			r.in.keep(b)
		case len(r.keys) > 0:
			return errBroken
		}
		if err := r.field(); err != nil || r.inList {
			return err
		}
	}
}

// unneeded are fields that are large, and say nothing that is wanted.
var unneeded = []string{"history", "toolUseResult", "snapshot", "replay_config", "environment", "todos", "tools"}

// field reads a field. The value of one that is not needed becomes null.
func (r *Reader) field() error {
	name, err := r.name()
	if err != nil {
		return err
	}
	r.keys = append(r.keys, name)
	if b, err := r.in.next(); err != nil {
		return err
	} else if b == '[' && (name == "messages" || name == "trajectory") {
		r.inList = true
		r.in.keep(b)
		return nil
	}
	needed := !slices.Contains(unneeded, name)
	err = r.in.value(needed)
	if r.tooLong = r.tooLong || errors.Is(err, errTooLong); r.tooLong {
		err = nil
	}
	if !needed || r.tooLong {
		r.in.kept = append(r.in.kept, "null"...)
	}
	return err
}

// name reads the name of a field and the colon.
func (r *Reader) name() (name string, err error) {
	if b, err := r.in.next(); err != nil || b != '"' {
		return "", or(err, errBroken)
	}
	start := len(r.in.kept)
	if err := r.in.value(true); err != nil {
		return "", err
	}
	if json.Unmarshal(r.in.kept[start:], &name) != nil {
		return "", errBroken
	}
	if b, err := r.in.next(); err != nil || b != ':' {
		return "", or(err, errBroken)
	}
	r.in.keep(':')
	return name, nil
}

// endObject takes an object that is a line, or ends a document.
func (r *Reader) endObject() error {
	r.inDoc = false
	switch {
	case slices.Contains(r.keys, "messages"), slices.Contains(r.keys, "trajectory"):
		return nil // its list has been read
	case r.tooLong:
		return errTooLong
	}
	r.take(r.formatOfLine(), r.in.kept)
	return nil
}

// element reads an element of a list, or its end.
func (r *Reader) element() error {
	b, err := r.in.next()
	if err != nil {
		return err
	}
	if b == ',' && r.elements > 0 {
		r.in.keep(b)
		r.in.kept = r.in.kept[:0]
		if b, err = r.in.next(); err != nil {
			return err
		}
	}
	if b == ']' {
		r.inList = false
		r.in.keep(b)
		r.endConversation()
		return nil
	}
	r.line = r.in.line
	if err := r.in.value(true); err != nil {
		return err
	}
	r.takeElement(r.in.kept)
	return nil
}

// formatOfLine tells the format of an object that is a line by the names of its fields.
func (r *Reader) formatOfLine() Format {
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(r.keys, name) })
	}
	switch {
	case has("type") && has("payload"), has("record_type"), has("instructions") && has("timestamp"):
		return Codex
	case has("type") && (has("sessionId", "parentUuid", "leafUuid", "messageId") || r.counts.Format == ClaudeCode):
		return ClaudeCode
	}
	return formatOfElement(r.in.kept)
}

// takeElement takes an element of a list: a message, or a whole conversation.
func (r *Reader) takeElement(data []byte) {
	format := formatOfElement(data)
	var messages []json.RawMessage
	if data[0] == '[' {
		_ = json.Unmarshal(data, &messages) // what is broken is not known
	} else if format == "" {
		var document struct{ Messages []json.RawMessage }
		_ = json.Unmarshal(data, &document)
		messages = document.Messages
	}
	if len(messages) == 0 {
		r.take(format, data)
		return
	}
	for _, message := range messages {
		r.take(formatOfElement(message), message)
	}
	r.endConversation()
}

// formatOfElement tells the format of an element of a list.
func formatOfElement(data []byte) Format {
	var e struct {
		Type, Role, Object               text
		Info, Parts, Action, Observation json.RawMessage
	}
	_ = json.Unmarshal(data, &e) // what is broken has no format
	switch {
	case e.Info != nil && e.Parts != nil:
		return OpenCode
	case e.Action != nil && e.Observation != nil:
		return SWEAgent
	case e.Type != "" && (e.Role == "" || e.Type == "message"):
		return Codex
	case e.Role != "", e.Object == "response":
		return Chat
	}
	return ""
}

// take takes a line or an element. All of a file are of one format, but that chats may have items of the Responses API.
func (r *Reader) take(format Format, data []byte) {
	r.elements++
	r.counts.Lines++
	if c := &r.counts; c.Format == "" || c.Format == format || c.Format == Chat && format == Codex {
		if r.takeAs(format, data) {
			c.Format = or(c.Format, format)
			return
		}
	}
	r.counts.Unknown++
}

func (r *Reader) takeAs(format Format, data []byte) bool {
	switch format {
	case ClaudeCode:
		return r.claude(data)
	case Codex:
		return r.codex(data)
	case OpenCode:
		return r.openCode(data)
	case SWEAgent:
		return r.sweAgent(data)
	case Chat:
		return r.chat(data)
	}
	return false
}
