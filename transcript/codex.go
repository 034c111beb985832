package transcript

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog/loop"
)

// A codexLine is a line of a session of Codex. In early versions what is the payload now was the line.
type codexLine struct {
	Timestamp  text
	Type       text
	Payload    json.RawMessage
	RecordType text `json:"record_type"`
}

// An item is one of the Responses API, which Codex keeps.
type item struct {
	Type      text
	Role      text
	Name      text
	CallID    text `json:"call_id"`
	Arguments json.RawMessage
	Input     json.RawMessage
	Action    json.RawMessage
	Output    json.RawMessage
	Tools     json.RawMessage
	Content   json.RawMessage
	Message   text // of an event
	Kind      text // of a user's message in an event: plain, or what the program says
	Item      struct{ Type text }
}

// codexOthers are types of lines that have no call and nothing of a person.
var codexOthers = []string{
	"session_meta", "turn_context", "compacted", "world_state", "inter_agent_communication",
	"inter_agent_communication_metadata", "rollout_reference", "token_usage_record", "security_risk_score",
	"retained_context", "realtime_item",
}

// itemOthers are types of items that are neither. A search of the web has no result in the file.
var itemOthers = []string{
	"reasoning", "web_search_call", "image_generation_call", "ghost_snapshot", "compaction", "compaction_summary",
	"context_compaction", "compaction_trigger", "agent_message", "additional_tools", "other",
}

func (r *Reader) codex(data []byte) bool {
	var l codexLine
	if json.Unmarshal(data, &l) != nil {
		return false
	}
	at := timeOf(string(l.Timestamp))
	switch {
	case l.Payload == nil:
		return l.Type == "" || r.item(data, at, true) // its first line has no type, and neither have states
	case l.Type == "response_item":
		return r.item(l.Payload, at, false)
	case l.Type == "event_msg":
		return r.codexEvent(l.Payload, at)
	}
	return slices.Contains(codexOthers, string(l.Type))
}

// codexEvent takes an event, of which only what a person typed is wanted. The user's role of items has also what the
// program says.
func (r *Reader) codexEvent(data []byte, at time.Time) bool {
	var event item
	if json.Unmarshal(data, &event) != nil {
		return false
	}
	typed := event.Type == "user_message" && (event.Kind == "" || event.Kind == "plain") ||
		event.Type == "item_completed" && event.Item.Type == "UserMessage"
	if typed && !programSays(string(event.Message)) {
		r.says("", at)
	}
	return true
}

// item takes an item. A person's message is taken where there are no events that say so.
func (r *Reader) item(data []byte, at time.Time, messages bool) bool {
	var it item
	if json.Unmarshal(data, &it) != nil {
		return false
	}
	c := call{id: string(it.CallID), step: loop.Step{Tool: string(it.Name)}}
	switch it.Type {
	case "message":
		if messages && it.typed() {
			r.says("", at)
		}
		return it.Role != "" // other agents have lines of that type
	case "function_call", "tool_search_call":
		c.step.Tool = cmp.Or(c.step.Tool, "tool_search")
		c.step.Input = inputOf(it.Arguments)
		r.call("", "", c)
	case "custom_tool_call":
		c.step.Input = inputOf(it.Input)
		r.call("", "", c)
	case "local_shell_call":
		c.step.Tool, c.step.Input = "local_shell", it.Action
		r.call("", "", c)
	case "function_call_output", "custom_tool_call_output":
		return r.result("", it.result(at))
	case "tool_search_output":
		return r.result("", result{id: string(it.CallID), outcome: it.Tools, at: at})
	default:
		return slices.Contains(itemOthers, string(it.Type))
	}
	return true
}

func (it *item) typed() bool {
	return it.Role == "user" && slices.ContainsFunc(blocksOf(it.Content), func(b block) bool {
		return b.Text != "" && !programSays(string(b.Text))
	})
}

// inputOf returns arguments as they are: a text has them as JSON.
func inputOf(arguments json.RawMessage) []byte {
	if len(arguments) == 0 || arguments[0] == '"' {
		return outcomeOf(arguments)
	}
	return arguments
}

// result returns the result. Its output is a text, a list of blocks, a block, or an object that says whether it failed.
func (it *item) result(at time.Time) result {
	res := result{id: string(it.CallID), outcome: outcomeOf(it.Output), at: at}
	var object struct {
		Content json.RawMessage
		Text    json.RawMessage
		Success *bool
	}
	if strings.HasPrefix(string(it.Output), "{") && json.Unmarshal(it.Output, &object) == nil {
		if content := slices.Concat(object.Content, object.Text); len(content) > 0 {
			res.outcome = outcomeOf(content)
		}
		res.failed = object.Success != nil && !*object.Success
	}
	res.refused = refused(res.outcome)
	return res
}
