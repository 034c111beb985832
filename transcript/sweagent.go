package transcript

import (
	"encoding/json"
	"slices"
	"strings"
)

// A sweAgentStep is an element of a trajectory of SWE-agent. It has no times.
type sweAgentStep struct {
	Action      text
	Observation json.RawMessage
}

func (r *Reader) sweAgent(data []byte) bool {
	var s sweAgentStep
	if json.Unmarshal(data, &s) != nil {
		return false
	}
	action := strings.TrimSpace(string(s.Action))
	if action == "" {
		return true // it only thought
	}
	r.call("", "", shellCall(sweAgentTool(action), action))
	return r.result("", result{outcome: outcomeOf(s.Observation)})
}

// sweAgentTools are the commands that are tools of SWE-agent. What is none of these is for the shell.
var sweAgentTools = []string{
	"open", "goto", "scroll_up", "scroll_down", "create", "edit", "insert", "append", "search_dir", "search_file",
	"find_file", "filemap", "submit", "view_image", "str_replace_editor", "edit_anthropic",
}

var editorCommands = []string{"view", "create", "str_replace", "insert", "undo_edit"}

// sweAgentTool returns the tool that a command calls. An editor with commands of its own is one tool for each. It is
// never another word of the action, which may be anything.
func sweAgentTool(action string) string {
	words := strings.Fields(action)
	if !slices.Contains(sweAgentTools, words[0]) {
		return "bash"
	}
	if (words[0] == "str_replace_editor" || words[0] == "edit_anthropic") && len(words) > 1 &&
		slices.Contains(editorCommands, words[1]) {
		return words[1]
	}
	return words[0]
}
