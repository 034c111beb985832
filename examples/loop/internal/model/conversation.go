package model

import "time"

// The kinds of event in a reply.
const (
	// Token is a piece of text.
	Token = "token"
	// Status is what the model is doing.
	Status = "status"
	// Tool ends a reply: the agent must call the named tool, with the input after the name, if there is one.
	Tool = "tool"
	// Tools ends a reply: the agent must make so many calls of the named tool, one after the other.
	Tools = "tools"
	// SubAgents ends a reply: the agent must hand the work to so many sub-agents.
	SubAgents = "sub-agents"
	// Ask ends a reply: the agent must ask a person first.
	Ask = "ask"
	// Again ends a reply: the agent must send the same request again.
	Again = "again"
	// Final ends the conversation.
	Final = "final"
)

// The time before each event, of a healthy model and of one that trickles.
const (
	pace     = 30 * time.Millisecond
	slowPace = 250 * time.Millisecond
)

// beat is the interval between two heartbeats.
const beat = 200 * time.Millisecond

// faultyTurn is the turn of the faults.
const faultyTurn = 2

// A step is one event of a reply.
type step struct{ kind, text string }

// conversation has the reply of a healthy model for each turn.
var conversation = [][]step{
	{{Status, "reading the code"}, {Token, "Let "}, {Token, "me "}, {Token, "look. "}, {Tool, "read_file"}},
	{
		{Status, "looking for the cause"}, {Token, "The "}, {Token, "index "}, {Status, "writing a fix"}, {Token, "is off "},
		{Token, "by one. "}, {Status, "writing a test"}, {Token, "Fixed. "}, {Ask, "apply the fix"},
	},
	{{Status, "testing the fix"}, {Token, "Running "}, {Token, "the tests. "}, {Tool, "run_tests"}},
	{{Status, "summing up"}, {Token, "All "}, {Token, "tests "}, {Token, "pass."}, {Final, ""}},
}

// stalled is the number of events before a reply goes silent.
const stalled = 3

// loops has the replies of a model that repeats itself.
var loops = [][]step{
	{{Status, "looking at the code"}, {Token, "Perhaps "}, {Token, "the test? "}, {Again, ""}},
	{{Status, "looking at the test"}, {Token, "Perhaps "}, {Token, "the code? "}, {Again, ""}},
}

// cycle has the replies of a model that goes round in a circle.
var cycle = [][]step{
	{{Token, "Where is it? "}, {Tool, `grep {"pattern":"index out of range"}`}},
	{{Token, "What was it? "}, {Tool, `read_log {"path":"crash.log"}`}},
	{{Token, "Once more. "}, {Tool, `go_build {"packages":"./..."}`}},
}

// batch is the reply of a model that has many edits to make, and delegation that of one that has others work.
var (
	batch      = []step{{Status, "renaming a field"}, {Token, "It is everywhere. "}, {Tools, "edit_file 200"}}
	delegation = []step{{Status, "splitting the work"}, {Token, "You three. "}, {SubAgents, "3"}}
)

// turn returns the reply of a healthy model.
func turn(n int) []step {
	if n < 1 || n > len(conversation) {
		return []step{{Final, ""}}
	}
	return conversation[n-1]
}
