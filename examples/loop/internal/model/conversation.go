package model

import "time"

// The kinds of event in a reply.
const (
	// Token is a piece of text.
	Token = "token"
	// Status is what the model says that it does.
	Status = "status"
	// Tool ends a reply: the agent is to call the tool that is named.
	Tool = "tool"
	// Ask ends a reply: the agent is to ask a person first.
	Ask = "ask"
	// Again ends a reply: the agent is to ask the same once more.
	Again = "again"
	// Final ends the conversation.
	Final = "final"
)

// The pace of a model, and of one that trickles: how long it takes to each event.
const (
	pace     = 30 * time.Millisecond
	slowPace = 250 * time.Millisecond
)

// beat is how often a model that is only alive says so.
const beat = 200 * time.Millisecond

// illTurn is the turn in which faults show.
const illTurn = 2

// A step is one event of a reply.
type step struct{ kind, text string }

// conversation is what a healthy model replies in each turn.
var conversation = [][]step{
	{{Status, "reading the code"}, {Token, "Let "}, {Token, "me "}, {Token, "look. "}, {Tool, "read_file"}},
	{
		{Status, "looking for the cause"}, {Token, "The "}, {Token, "index "}, {Status, "writing a fix"}, {Token, "is off "},
		{Token, "by one. "}, {Status, "writing a test"}, {Token, "Fixed. "}, {Ask, "apply the fix"},
	},
	{{Status, "testing the fix"}, {Token, "Running "}, {Token, "the tests. "}, {Tool, "run_tests"}},
	{{Status, "summing up"}, {Token, "All "}, {Token, "tests "}, {Token, "pass."}, {Final, ""}},
}

// stalled is where a reply goes silent: after so many events.
const stalled = 3

// loops are the replies of a model that gets nowhere, in turn.
var loops = [][]step{
	{{Status, "looking at the code"}, {Token, "Perhaps "}, {Token, "the test? "}, {Again, ""}},
	{{Status, "looking at the test"}, {Token, "Perhaps "}, {Token, "the code? "}, {Again, ""}},
}

// turn is what a healthy model replies in a turn.
func turn(n int) []step {
	if n < 1 || n > len(conversation) {
		return []step{{Final, ""}}
	}
	return conversation[n-1]
}
