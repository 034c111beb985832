package transcript

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog/loop"
)

// A message is one of a chat, as the APIs of OpenAI and Anthropic have it, and mini-swe-agent.
type message struct {
	ID         text
	Object     text
	Role       text
	Content    json.RawMessage
	Name       text
	ToolCallID text `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       text
		Function function
		Custom   function
	} `json:"tool_calls"`
	FunctionCall *function         `json:"function_call"`
	Output       []json.RawMessage // of a response of the Responses API
	Extra        extra
}

type function struct {
	Name             text
	Arguments, Input json.RawMessage
}

// An extra is what mini-swe-agent adds to a message.
type extra struct {
	Timestamp     float64
	Returncode    *float64
	InterruptType text `json:"interrupt_type"`
	Actions       []struct{ Command text }
}

// UnmarshalJSON takes what has another form for none.
func (e *extra) UnmarshalJSON(data []byte) error {
	type plain extra
	_ = json.Unmarshal(data, (*plain)(e))
	return nil
}

// A textAgent calls with commands in the text of its messages, and gets what comes back in the user's role.
type textAgent struct {
	message, command string // of the last message, until what came back is known
	observed         bool   // so that a person's text cannot be told from others
}

func (r *Reader) chat(data []byte) bool {
	var m message
	if json.Unmarshal(data, &m) != nil {
		return false
	}
	at := m.Extra.at()
	if m.Object == "response" {
		return !slices.ContainsFunc(m.Output, func(data json.RawMessage) bool { return !r.item(data, at, false) })
	}
	switch m.Role {
	case "assistant":
		return r.chatCalls(&m)
	case "tool", "function":
		return r.result("", result{id: string(m.ToolCallID), outcome: outcomeOf(m.Content), at: at})
	case "user":
		return m.Content != nil && r.chatUser(&m, at)
	case "system", "developer", "exit":
		return true
	}
	return false
}

func (r *Reader) chatCalls(m *message) bool {
	id := strconv.Itoa(r.elements)
	add := func(callID text, f *function) {
		r.call("", id, call{id: string(callID), step: loop.Step{
			Tool: string(f.Name), Input: inputOf(slices.Concat(f.Arguments, f.Input)),
		}})
	}
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		if c.Function.Name == "" {
			c.Function = c.Custom
		}
		add(c.ID, &c.Function)
	}
	if m.FunctionCall != nil {
		add("", m.FunctionCall)
	}
	called := r.blockCalls("", id, m.Content) || len(m.ToolCalls) > 0 || m.FunctionCall != nil
	if r.text.command = ""; !called {
		r.textCall(id, m)
	}
	return called || m.Content != nil
}

// textCall notes the command in the text of a message. There must be just one, as mini-swe-agent has it.
func (r *Reader) textCall(id string, m *message) {
	command := commandIn(string(outcomeOf(m.Content)))
	if len(m.Extra.Actions) == 1 {
		command = string(m.Extra.Actions[0].Command)
	}
	r.text.message, r.text.command = id, strings.TrimSpace(command)
}

// commandIn returns the command between the fences of a text, or nothing if there is not just one.
func commandIn(text string) (command string) {
	parts := strings.Split(text, "```")
	for i := 1; i < len(parts); i += 2 {
		language, code, _ := strings.Cut(parts[i], "\n")
		if language = strings.TrimSpace(language); language != "bash" && language != "mswea_bash_command" {
			continue
		}
		if command != "" {
			return ""
		}
		command = code
	}
	return command
}

// chatUser takes what is in the user's role: results, what came back from a command in a text, or what a person typed.
func (r *Reader) chatUser(m *message, at time.Time) (known bool) {
	known, results := r.blockResults("", m.Content, at, false)
	outcome := outcomeOf(m.Content)
	observes := m.Extra.Returncode != nil || strings.HasPrefix(string(outcome), "<returncode>")
	command := r.text.command
	r.text.command = ""
	switch {
	case results:
	case observes && command != "":
		r.text.observed = true
		r.call("", r.text.message, shellCall("bash", command))
		return r.result("", result{outcome: outcome, at: at})
	case strings.HasPrefix(string(m.Extra.InterruptType), "User"):
		r.says("", at)
	case !r.text.observed && m.Extra.InterruptType == "" && !programSays(string(outcome)):
		r.says("", at)
	}
	return known
}

func (e *extra) at() time.Time { return milliseconds(e.Timestamp * 1000) }
