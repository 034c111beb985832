package watchdog_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/doccheck"
)

// TestWords protects readers from a word with two meanings: the name of an exported type is nowhere the name of a
// field or a method, or of another package's type, that is about something else.
func TestWords(t *testing.T) {
	problems, err := doccheck.Words(os.DirFS("."), sameMeaning)
	require.NoError(t, err)
	for _, problem := range problems {
		t.Error(problem)
	}
}

// sameMeaning are words that stand for the same thing wherever they are, with what that is.
var sameMeaning = map[string]string{
	"Config":   "how a thing of the package is made",
	"Store":    "what keeps the data of its package",
	"Memory":   "a store in memory",
	"Watchdog": "a guarded run; otelwatchdog's is one that is measured",
	"Keeper":   "session.Keeper is a watchdog.Keeper",
	"Attempt":  "one process's work at a run, and its number",
	"Hold":     "a stretch in which silence is expected, its key and its cap",
	"Budget":   "the limits of a run, and what there was of the one that was exceeded",
	"Grace":    "the time to end that is given before more is done",
	"Decision": "what a package decided",
	"Stage":    "a stage of converge, and its name",
	"Result":   "what came of what was run",
	"Stalled":  "what got stuck: a command, sessions",
	"Signal":   "what is sent to a process, and what a run sends; each is the standard word",
	"Run":      "a guarded run; as a method, what the standard library names so",
	"Error":    "an error and its text",
	"Command":  "a program that is run: a guarded one, and a probe's with its arguments",
	"Calls":    "an account of calls, and the method that has it measured",
	"Lease":    "the word of a process that it lives, and its name in the rows of its runs",
	"Outcome":  "what came of a call",
	"State":    "what is kept of a thing, as JSON",
	"Step":     "a part of a workflow, of an agent's work, of a command's end; the method takes the next one",
	"Class":    "what kind of thing something is to what judges it: a host's event, an agent's tool",
	"Period":   "what begins again: a shared limit's stretch of time, a loop's round",
	"Advice":   "what a pure detector asks the host to do",
	"Rule":     "what is to hold, and was broken: a store's, a run's",
	"Ending":   "how a command is being ended: what was sent, and what comes next",
	"Refused":  "what was not let through: a call, a step of an agent",
	"Page":     "a page: of a list, and for a browser",
	"Outbox":   "where notices are until they are delivered, and the setting that a store has one",
	"Sweeper":  "what sweeps, and what a page asks it",
	"Pass":     "a pass of a sweeper, and the method that has it measured",

	"Guard":     "what guards the calls of agents that are written with an SDK",
	"Limits":    "what bounds: a call of a tool, a command in a file of settings",
	"Transport": "what carries the messages of a protocol, in the word of its library",
}
