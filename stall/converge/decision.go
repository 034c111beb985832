package converge

import (
	"fmt"
	"strings"

	"github.com/seed62658d38/watchdog"
)

// An Advice is what a [Decision] asks the loop to do.
type Advice string

// The actions.
const (
	// Continue goes on in the same stage.
	Continue Advice = "continue"
	// Move goes on in the next stage.
	Move Advice = "move"
	// GiveUp ends the loop.
	GiveUp Advice = "give_up"
)

// A Decision is the answer to one iteration. It shares no memory with its [Tracker].
type Decision struct {
	Advice Advice
	// Stage is the stage of the next attempt. After giving up it is the last stage.
	Stage Stage
	// InRow is how many iterations in a row, this one included, ended with the same set, or with one of those that the
	// loop goes back and forth between. It is 0 after an iteration that ended well.
	InRow int
	// Oscillates says that those iterations had different sets.
	Oscillates bool
	// Fingerprints are the iteration's, sorted, without duplicates.
	Fingerprints []string
	// New are not in the iteration before, Gone are only in that one, and Same are in both.
	New, Gone, Same []string
}

// Oscillation is the code of a loop that went back and forth between the same sets, for [watchdog.Watchdog.Cancel].
const Oscillation watchdog.StopReason = "oscillation_detected"

// StopReason returns the code for a host's session row. It is [Oscillation] after giving up on a loop that went back
// and forth. It is empty for every other decision: there is no code for a loop that keeps ending
// the same.
func (d Decision) StopReason() watchdog.StopReason {
	if d.Advice == GiveUp && d.Oscillates {
		return Oscillation
	}
	return ""
}

const maxListed = 10

// Text returns a few plain lines for the next attempt, to be put at the end of an agent's prompt: how often the same
// set came, at most ten of the fingerprints, and the stage's instructions. After an iteration that ended well it is
// empty.
//
// It holds nothing else of the run. A fingerprint cannot contain a space or a line break, so it stays on its own
// line. But its author chose its words: if a probe reads foreign data, anybody can be the author.
func (d Decision) Text() string {
	if len(d.Fingerprints) == 0 {
		return ""
	}
	var text strings.Builder
	text.WriteString(d.headline() + "\n")
	for _, fingerprint := range d.Fingerprints[:min(len(d.Fingerprints), maxListed)] {
		text.WriteString("- " + fingerprint + "\n")
	}
	if more := len(d.Fingerprints) - maxListed; more > 0 {
		fmt.Fprintf(&text, "and %d more\n", more)
	}
	text.WriteString(d.advice())
	return text.String()
}

func (d Decision) headline() string {
	switch problems := plural(len(d.Fingerprints), "problem"); {
	case d.Oscillates:
		return fmt.Sprintf("The last %d iterations went back and forth between the same problems. "+
			"The last one ended with %s:", d.InRow, problems)
	case d.InRow > 1:
		return fmt.Sprintf("The last %d iterations ended with the same %s:", d.InRow, strings.TrimPrefix(problems, "1 "))
	default:
		return fmt.Sprintf("The last iteration ended with %s:", problems)
	}
}

func (d Decision) advice() string {
	lines := "Stage: " + d.Stage.Name + "\n"
	if d.Advice == GiveUp {
		lines = "Given up: every stage was tried.\n"
	}
	if d.Stage.Instructions != "" {
		lines += strings.TrimRight(d.Stage.Instructions, "\n") + "\n"
	}
	return lines
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
