package transcript

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog/loop"
)

// An openCodeMessage is an element of the messages that opencode export prints. It has the calls with their results.
type openCodeMessage struct {
	Info struct {
		ID, Role text
		Time     struct{ Created float64 }
	}
	Parts []openCodePart
}

type openCodePart struct {
	Type      text
	Text      text
	Synthetic bool
	Ignored   bool
	ID        text
	CallID    text
	Tool      text
	State     struct {
		Status text
		Input  json.RawMessage
		Output json.RawMessage
		Error  text
		Time   struct{ End float64 }
	}
}

func (r *Reader) openCode(data []byte) bool {
	var m openCodeMessage
	if json.Unmarshal(data, &m) != nil {
		return false
	}
	switch m.Info.Role {
	case "user":
		if m.typed() {
			r.says("", milliseconds(m.Info.Time.Created))
		}
	case "assistant":
		r.openCodeCalls(&m)
	default:
		return false
	}
	return true
}

// openCodeCalls takes the calls. A message of older versions has several steps of the model, each of which is a turn.
func (r *Reader) openCodeCalls(m *openCodeMessage) {
	step := 0
	for i := range m.Parts {
		p := &m.Parts[i]
		if p.Type == "step-start" {
			step++
		}
		if p.Type != "tool" {
			continue
		}
		id := string(cmp.Or(p.CallID, p.ID))
		r.call("", string(m.Info.ID)+" "+strconv.Itoa(step), call{
			id: id, step: loop.Step{Tool: string(p.Tool), Input: p.State.Input},
		})
		if p.State.Status == "completed" || p.State.Status == "error" {
			outcome := outcomeOf(p.State.Output)
			if p.State.Status == "error" {
				outcome = []byte(p.State.Error)
			}
			r.result("", result{
				id: id, outcome: outcome, failed: p.State.Status == "error", refused: refused(outcome),
				at: milliseconds(p.State.Time.End),
			})
		}
	}
}

// typed reports whether a person typed the message: it has a text, or a command, that opencode did not add.
func (m *openCodeMessage) typed() bool {
	return slices.ContainsFunc(m.Parts, func(p openCodePart) bool {
		return p.Type == "subtask" ||
			p.Type == "text" && !p.Synthetic && !p.Ignored && strings.TrimSpace(string(p.Text)) != ""
	})
}

func milliseconds(ms float64) time.Time {
	if ms <= 0 || ms > 1<<52 {
		return time.Time{}
	}
	return time.UnixMilli(int64(ms))
}
