package story

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
)

// ArtifactSchema is the schema of the files that [OfArtifact] reads: the event.json of a stalled command.
const ArtifactSchema = "watchdog.stall.event/v1"

// A Command is what was done about a command that was stuck.
type Command struct {
	Step      string `json:"step"`
	Workflow  string `json:"workflow,omitempty"`
	CheckID   string `json:"check_id,omitempty"`
	Iteration int    `json:"iteration,omitempty"`
	// Trigger is what the guard saw, Reason says it in words, Reasons are the probe's.
	Trigger string   `json:"trigger"`
	Reason  string   `json:"reason"`
	Reasons []string `json:"reasons,omitempty"`
	// Action is interrupt, fail or ignore.
	Action       string   `json:"action"`
	Sent         []Sent   `json:"sent,omitempty"`
	Fingerprints []string `json:"fingerprints,omitempty"`
	// Left says what is known of the command's processes.
	Left     Left   `json:"left"`
	EndedBy  string `json:"ended_by,omitempty"`
	ExitCode *int   `json:"exit_code,omitempty"`
	// AlsoEndFailed is why what it had running elsewhere may be alive; empty where that was ended, or not tried.
	AlsoEndFailed string `json:"also_end_failed,omitempty"`
	// Log is the log of the step, as its host names it.
	Log string `json:"log,omitempty"`
}

// Left is what was left of a command's processes.
type Left string

// What can be left.
const (
	// LeftNothing means that none of its processes is alive.
	LeftNothing Left = "nothing"
	// LeftAlive means that processes could not be ended.
	LeftAlive Left = "alive"
	// LeftRunning means that it was left to run.
	LeftRunning Left = "running"
	// LeftUnknown means that the file was not completed: the guard was ended before.
	LeftUnknown Left = "unknown"
)

// Sent is a signal that was sent to the processes of a command.
type Sent struct {
	Signal    string    `json:"signal"`
	At        time.Time `json:"at"`
	Processes int       `json:"processes"`
	Missed    int       `json:"missed,omitempty"` // alive and not reached
}

// String says whom it reached.
func (s Sent) String() string {
	text := fmt.Sprintf("%s to %d", s.Signal, s.Processes)
	if s.Missed > 0 {
		text += fmt.Sprintf(" (%d not reached)", s.Missed)
	}
	return text
}

// An artifact is what a story needs of an event.json.
type artifact struct {
	Schema    string `json:"schema"`
	CheckID   string `json:"check_id"`
	Workflow  string `json:"workflow"`
	Step      string `json:"step"`
	Iteration int    `json:"iteration"`
	RunID     string `json:"run_id"`
	Trigger   struct {
		Kind           string `json:"kind"`
		Reason         string `json:"reason"`
		ObservedAtUnix int64  `json:"observed_at_unix"`
	} `json:"trigger"`
	Action struct {
		Kind string `json:"kind"`
		Sent []struct {
			Signal       string `json:"signal"`
			SentAtUnixMS int64  `json:"sent_at_unix_ms"`
			Processes    int    `json:"processes"`
			Missed       int    `json:"missed"`
		} `json:"sent"`
		Terminated bool   `json:"terminated"`
		EndedBy    string `json:"ended_by"`
		ExitCode   *int   `json:"exit_code"`
	} `json:"action"`
	Reasons      []string `json:"reasons"`
	Fingerprints []string `json:"fingerprints"`
	Pointers     struct {
		StepLog string `json:"step_log"`
	} `json:"pointers"`
	Complete bool `json:"complete"`
	Finished bool `json:"finished"`
	AlsoEnd  *struct {
		Failed string `json:"failed"`
	} `json:"also_end"`
}

// OfArtifact tells the story of a command from the event.json that its guard left. The error says what keeps the file
// from being one.
func OfArtifact(text []byte, now time.Time) (Story, error) {
	var a artifact
	if err := json.Unmarshal(text, &a); err != nil {
		return Story{}, fmt.Errorf("it is not the JSON of a stalled command: %w", err)
	}
	if a.Schema != ArtifactSchema {
		return Story{}, fmt.Errorf("its schema is %q, and this version reads %q", a.Schema, ArtifactSchema)
	}
	s := Story{RunID: a.RunID, ToldAt: event.Truncate(now), State: a.state(), Command: a.command()}
	if s.State != Running {
		s.End = a.end()
	}
	s.Next = a.next(s.State)
	return s, nil
}

func (a *artifact) ignored() bool { return a.Action.Kind == "ignore" && len(a.Action.Sent) == 0 }

func (a *artifact) state() State {
	switch {
	case a.Finished:
		return Finished
	case a.ignored():
		return Running
	}
	return Stopped
}

// end is the end of the command. Its moment is when the guard saw that it was stuck.
func (a *artifact) end() *End {
	code := codeOf(a.Trigger.Kind)
	if a.Trigger.Kind == "wall_clock" {
		code = watchdog.WallClockExceeded
	}
	e := &End{
		At: time.Unix(a.Trigger.ObservedAtUnix, 0).UTC(), Code: code, Meaning: a.Trigger.Reason,
		By: partyOf(code, ""), Limit: a.Trigger.Kind,
	}
	if a.Finished {
		e.CorrectedAt, e.Meaning = e.At, tooLate
	}
	return e
}

func (a *artifact) command() *Command {
	c := &Command{
		Step: a.Step, Workflow: a.Workflow, CheckID: a.CheckID, Iteration: a.Iteration, Trigger: a.Trigger.Kind,
		Reason: a.Trigger.Reason, Reasons: a.Reasons, Action: a.Action.Kind, Fingerprints: a.Fingerprints,
		Left: a.left(), EndedBy: a.Action.EndedBy, ExitCode: a.Action.ExitCode, Log: a.Pointers.StepLog,
	}
	for _, sent := range a.Action.Sent {
		at := time.UnixMilli(sent.SentAtUnixMS).UTC()
		c.Sent = append(c.Sent, Sent{sent.Signal, at, sent.Processes, sent.Missed})
	}
	if a.AlsoEnd != nil {
		c.AlsoEndFailed = a.AlsoEnd.Failed
	}
	return c
}

func (a *artifact) left() Left {
	switch {
	case !a.Complete:
		return LeftUnknown
	case a.ignored():
		return LeftRunning
	case a.Action.Terminated || a.Finished:
		return LeftNothing
	case a.Action.EndedBy == "" && a.Action.ExitCode == nil:
		return LeftAlive
	}
	return LeftNothing
}

func (a *artifact) next(state State) Next {
	switch {
	case a.Finished:
		return Next{Advice: "nothing is left to do: the command finished"}
	case state == Running:
		return Next{Advice: "it was left to run; look whether it got further"}
	case !a.Complete:
		return Next{Advice: "its guard was ended first: look for processes of the command, then run it again"}
	}
	return runAgain(a.left() == LeftAlive)
}

// String says what was sent, and what is left.
func (c *Command) String() string {
	var sent []string
	for _, s := range c.Sent {
		sent = append(sent, s.String())
	}
	parts := []string{strings.Join(sent, ", ")}
	if len(sent) == 0 {
		parts[0] = "no signal was sent"
	}
	switch c.Left {
	case LeftNothing:
		parts = append(parts, "nothing is alive")
	case LeftAlive:
		parts = append(parts, "processes are left alive that could not be ended")
	case LeftRunning:
		parts = append(parts, "the command was left to run")
	case LeftUnknown:
		parts = append(parts, "what is left is not known: the guard was ended before it could say")
	}
	if c.AlsoEndFailed != "" {
		parts = append(parts, fmt.Sprintf("what runs elsewhere may be alive (%s)", c.AlsoEndFailed))
	}
	return strings.Join(parts, "; ")
}
