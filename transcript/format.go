package transcript

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
