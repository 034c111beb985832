package converge

import (
	"fmt"
	"strings"
)

// shown is how many fingerprints a text lists.
const shown = 10

// Text is what the next attempt is told, a few plain lines for the end of an agent's prompt: how often the same was seen, at most ten of the fingerprints and
// the stage's instructions. After an iteration that ended well it is empty.
//
// Nothing else of the run is in it. A fingerprint is one word that cannot hold a space or a line break, so it stays on the line it is listed on; but
// its words are those of whoever made it, which for a probe that looks at foreign data may be anybody.
func (d Decision) Text() string {
	if len(d.Fingerprints) == 0 {
		return ""
	}
	var text strings.Builder
	text.WriteString(d.headline() + "\n")
	for _, fingerprint := range d.Fingerprints[:min(len(d.Fingerprints), shown)] {
		text.WriteString("- " + fingerprint + "\n")
	}
	if more := len(d.Fingerprints) - shown; more > 0 {
		fmt.Fprintf(&text, "and %d more\n", more)
	}
	text.WriteString(d.advice())
	return text.String()
}

func (d Decision) headline() string {
	switch problems := plural(len(d.Fingerprints), "problem"); {
	case d.Oscillates:
		return fmt.Sprintf("The last %d iterations went back and forth between the same problems. The last one ended with %s:", d.InRow, problems)
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
