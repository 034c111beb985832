package model

import "time"

// The kinds of event in a reply.
const (
	// Token is a piece of text.
	Token = "token"
	// Status is what the model is doing.
	Status = "status"
	// Tool ends a reply: the agent must call the named tool.
	Tool = "tool"
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

// turn returns the reply of a healthy model.
func turn(n int) []step {
	if n < 1 || n > len(conversation) {
		return []step{{Final, ""}}
	}
	return conversation[n-1]
}
