package converge

import (
	"fmt"
	"strings"
)

// maxListed is how many fingerprints a text lists.
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
	if d.Action == GiveUp {
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
