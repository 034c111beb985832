package transcript

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

type claudeLine struct {
	Type       text
	UUID       text
	ParentUUID text
	Timestamp  text
	AgentID    text
	Sidechain  bool `json:"isSidechain"`
	Meta       bool `json:"isMeta"`
	Summary    bool `json:"isCompactSummary"`
	Unseen     bool `json:"isVisibleInTranscriptOnly"`
	Denial     text `json:"toolDenialKind"`
	Origin     origin
	Message    *message
	Attachment struct {
		Type, CommandMode text
		Prompt            json.RawMessage
	}
}

// An origin says who wrote what is in the user's role.
type origin struct{ Kind text }

// UnmarshalJSON takes what is no object for none.
func (o *origin) UnmarshalJSON(data []byte) error {
	type plain origin
	_ = json.Unmarshal(data, (*plain)(o))
	return nil
}

// claudeOthers are types of lines that have no call and nothing of a person.
var claudeOthers = []string{
	"system", "summary", "progress", "file-history-snapshot", "file-history-delta", "queue-operation", "last-prompt",
	"ai-title", "custom-title", "task-summary", "tag", "agent-name", "agent-color", "agent-setting", "mode",
	"permission-mode", "pr-link", "frame-link", "worktree-state", "relocated", "bridge-session", "atis-latch", "started",
	"result", "attribution-snapshot", "speculation-accept", "content-replacement", "saved_hook_context",
}

func (r *Reader) claude(data []byte) bool {
	var l claudeLine
	if json.Unmarshal(data, &l) != nil {
		return false
	}
	agent := r.side.agent(&l)
	switch l.Type {
	case "assistant", "user":
		if l.Message == nil || l.Message.Content == nil {
			return false
		}
		if l.Type == "user" {
			return r.claudeUser(agent, &l)
		}
		r.blockCalls(agent, string(cmp.Or(l.Message.ID, l.UUID)), l.Message.Content)
		return true
	case "attachment":
		if a := &l.Attachment; a.Type == "queued_command" && a.CommandMode != "task-notification" && l.typed(a.Prompt) {
			r.says(agent, timeOf(string(l.Timestamp)))
		}
		return true
	}
	return slices.Contains(claudeOthers, string(l.Type))
}

// claudeUser takes a line in the user's role: results, what a person typed, or what the program says.
func (r *Reader) claudeUser(agent string, l *claudeLine) (known bool) {
	at := timeOf(string(l.Timestamp))
	known, results := r.blockResults(agent, l.Message.Content, at, l.Denial != "")
	if !results && l.typed(l.Message.Content) {
		r.says(agent, at)
	}
	return known
}

// typed reports whether a person typed that content. What is in a side chain came from another agent.
func (l *claudeLine) typed(content json.RawMessage) bool {
	if l.Sidechain || l.Meta || l.Summary || l.Unseen || l.Origin.Kind != "" && l.Origin.Kind != "human" {
		return false
	}
	return slices.ContainsFunc(blocksOf(content), func(b block) bool {
		return b.Type == "image" || b.Type == "text" && b.Text != "" && !programSays(string(b.Text))
	})
}

// programSays reports whether a text in the user's role is by the program: it says what it is in how it begins. A
// command with a slash or a ! is a person's.
func programSays(text string) bool {
	text = strings.TrimLeft(text, " \t\r\n")
	return slices.ContainsFunc([]string{
		"<system-reminder>", "<task-notification>", "<local-command-", "<bash-stdout>", "<bash-stderr>",
		"<teammate-message", "<user-prompt-submit-hook>", "<ide_opened_file>", "<ide_selection>", "<ide_diagnostics>",
		"<environment_context>", "<user_instructions>", "<INSTRUCTIONS>", "# AGENTS.md instructions", "<permissions",
		"<turn_aborted>", "<subagent_notification>", "<skill>", "<hook_prompt", "<user_shell_command>",
		"[Request interrupted by user", "Caveat: The messages below",
		"This session is being continued from a previous conversation",
	}, func(start string) bool { return strings.HasPrefix(text, start) })
}

// A chain tells the sub-agents apart that have no ID: a side chain begins with a line without a parent in one. It
// remembers the last lines of side chains.
type chain struct {
	roots map[text]text // of a line, the line that its chain begins with
	lines []text        // those of roots, the oldest first
}

const maxChain = 4096

// agent returns the ID of the sub-agent that a line is of.
func (c *chain) agent(l *claudeLine) string {
	if !l.Sidechain || l.AgentID != "" {
		return string(l.AgentID)
	}
	root := cmp.Or(c.roots[l.ParentUUID], l.UUID)
	if l.UUID == "" {
		return string(root)
	}
	if len(c.lines) == maxChain {
		delete(c.roots, c.lines[0])
		c.lines = c.lines[1:]
	}
	if c.roots == nil {
		c.roots = map[text]text{}
	}
	c.roots[l.UUID] = root
	c.lines = append(c.lines, l.UUID)
	return string(root)
}
