package transcript

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// A Reader reads a session. It is not safe for concurrent use.
type Reader struct {
	turns

	in  document
	err error
}

// NewReader returns a Reader of what r has. It reads ahead.
func NewReader(r io.Reader) *Reader {
	return &Reader{
		in:    document{in: bufio.NewReaderSize(r, 64<<10), line: 1, fresh: true},
		turns: turns{conversation: 1, threads: map[string]*thread{}},
	}
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

func (r *Reader) advance() error {
	if c := &r.counts; c.Format == "" && c.Unknown >= 100 {
		return errUnknown
	}
	v, err := r.in.read()
	r.line = v.line
	switch {
	case errors.Is(err, errTooLong), errors.Is(err, errBroken):
		r.take("", nil)
		return nil
	case err != nil:
		r.counts.Cut = errors.Is(err, io.EOF) && r.in.within()
		return err
	}
	switch v.kind {
	case aLine:
		r.take(formatOfLine(v, r.counts.Format), v.data)
	case anElement:
		r.takeElement(v.data)
	case theEnd:
		r.endConversation()
	}
	return nil
}

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

// take takes a line or an element. All of a file are of one format, but that chats may have items of the Responses API.
func (r *Reader) take(format Format, data []byte) {
	r.elements++
	r.counts.Lines++
	if c := &r.counts; c.Format == "" || c.Format == format || c.Format == Chat && format == Codex {
		if r.takeAs(format, data) {
			c.Format = cmp.Or(c.Format, format)
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

var errUnknown = fmt.Errorf("%w: it has nothing of a session of Claude Code, Codex, opencode or SWE-agent, and no "+
	"list of chat messages", ErrFormat)

// formatOfLine tells the format of an object that is a line, by the names of its fields and by the lines before.
func formatOfLine(v value, before Format) Format {
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(v.keys, name) })
	}
	switch {
	case has("type") && has("payload"), has("record_type"), has("instructions") && has("timestamp"):
		return Codex
	case has("type") && (has("sessionId", "parentUuid", "leafUuid", "messageId") || before == ClaudeCode):
		return ClaudeCode
	}
	return formatOfElement(v.data)
}

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
