package transcript

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog/loop"
)

// A text is a string of JSON, or a number, which some have for an ID. Any other value is the empty one, because no
// format promises what it is.
type text string

// UnmarshalJSON takes a number as it is written, and what is neither for the empty one.
func (t *text) UnmarshalJSON(data []byte) error {
	switch b := data[0]; { // there is always a byte
	case b == '"':
		return json.Unmarshal(data, (*string)(t))
	case b == '-', b >= '0' && b <= '9':
		*t = text(data)
	default:
		*t = ""
	}
	return nil
}

type block struct {
	Type      text
	Text      text
	ID        text
	Name      text
	Input     json.RawMessage
	ToolUseID text `json:"tool_use_id"`
	Content   json.RawMessage
	IsError   bool `json:"is_error"`
}

// blocksOf returns the blocks of a content, which may be one text.
func blocksOf(content json.RawMessage) []block {
	if len(content) > 0 && content[0] == '"' {
		var b block
		_ = json.Unmarshal(content, &b.Text)
		b.Type = "text"
		return []block{b}
	}
	var all []block
	_ = json.Unmarshal(content, &all) // it is JSON; what has another form does not hide the others
	return all
}

// blockCalls takes the calls in a content, and reports whether there are any.
func (r *Reader) blockCalls(agent, message string, content json.RawMessage) (called bool) {
	for _, b := range blocksOf(content) {
		if b.Type == "tool_use" {
			called = true
			r.call(agent, message, call{id: string(b.ID), step: loop.Step{Tool: string(b.Name), Input: b.Input}})
		}
	}
	return called
}

// blockResults takes the results in a content, and reports whether there are any, and the call of each is known.
func (r *Reader) blockResults(agent string, content json.RawMessage, at time.Time, denied bool) (known, results bool) {
	known = true
	for _, b := range blocksOf(content) {
		if b.Type == "tool_result" {
			results = true
			outcome := outcomeOf(b.Content)
			known = r.result(agent, result{
				id: string(b.ToolUseID), outcome: outcome, failed: b.IsError, refused: denied || refused(outcome), at: at,
			}) && known
		}
	}
	return known, results
}

// shellCall is a call without an ID, of a tool that takes a command.
func shellCall(tool, command string) call {
	input, _ := json.Marshal(map[string]string{"command": command}) // a text is always valid
	return call{step: loop.Step{Tool: tool, Input: input}}
}

// refused reports whether the outcome of a call says that a person refused it.
func refused(outcome []byte) bool {
	start := outcome[:min(len(outcome), 200)]
	for _, says := range []string{
		"The user doesn't want to proceed with this tool use", "The user doesn't want to take this action",
		"rejected by user", "The user rejected permission to use", "The user has specified a rule which prevents you",
	} {
		if bytes.Contains(start, []byte(says)) {
			return true
		}
	}
	return false
}

// outcomeOf returns what came back as text: a string as it is, and the texts of a list of blocks. What has no text,
// such as an image, is its JSON.
func outcomeOf(content json.RawMessage) []byte {
	if len(content) > 0 && content[0] == '"' {
		var s string
		_ = json.Unmarshal(content, &s)
		return []byte(s)
	}
	var texts []string
	for _, b := range blocksOf(content) {
		if b.Type != "text" && b.Type != "input_text" && b.Type != "output_text" {
			return content
		}
		texts = append(texts, string(b.Text))
	}
	if texts == nil {
		return content
	}
	return []byte(strings.Join(texts, "\n"))
}

func timeOf(s string) time.Time {
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}
	}
	return at
}
