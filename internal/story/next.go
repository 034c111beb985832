package story

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed62658d38/watchdog"
)

func (t *teller) next() Next {
	switch t.State {
	case Complete:
		return Next{Advice: "nothing is left to do"}
	case Failed:
		return t.afterFailure()
	case Finished:
		return Next{Advice: "nothing is left to do: it finished, and its host can attach to it again"}
	case Interrupted:
		return Next{Advice: "start its host again: the window goes on where it was"}
	case Running, Ending:
		return Next{Advice: t.ofRunning(), Command: CommandLine("tail", t.RunID)}
	case Stopped:
		return t.afterStop()
	case Unknown:
	}
	return Next{Advice: "no row says whether it lives; ask its host"}
}

func (t *teller) afterFailure() Next {
	if t.Parent != "" {
		return t.ofLayer()
	}
	return Next{Advice: "run its command again: watchdog run with the same --id begins a fresh window"}
}

func (t *teller) ofLayer() Next {
	top, _, _ := strings.Cut(t.Parent, "/")
	return Next{Advice: "it is a layer; see the run around it", Command: CommandLine("why", top)}
}

// overdue is how late a signal can be, and the row that says so, if the process that sends it lives.
const overdue = 30 * time.Second

func (t *teller) ofRunning() string {
	switch {
	case t.AgentsStopped:
		return "a sweeper has stopped what works on it, and is about to cancel it"
	case t.Behind:
		return "it runs, but its process cannot write its row; find what locks or refuses it"
	case t.row.HostLost():
		return "its process was found dead or cut off; a sweeper cancels it when it has been silent for too long"
	case !t.Vouched:
		return "its row says that it runs, but no process vouches for it; watch it"
	case t.State == Ending && t.Escalation.Next != "" && t.ToldAt.Sub(t.Escalation.NextAt) > overdue:
		return "its command should have ended by now: see whether its process still lives"
	case t.State == Ending:
		return "its command is being ended; watch it"
	}
	return "it runs; watch it"
}

func (t *teller) afterStop() Next {
	switch {
	case t.End.By == BySentinel:
		return runAgain(t.LeftAlive() != "")
	case t.Parent != "":
		return t.ofLayer()
	}
	return Next{Advice: advice(t.End.Code), Command: CommandLine("resume", t.RunID)}
}

// runAgain is what to do about a command that was stuck.
func runAgain(leftAlive bool) Next {
	if leftAlive {
		return Next{Advice: "end what is left alive, then run the command again"}
	}
	return Next{Advice: "run the command again when what blocked it is gone"}
}

// advice is what to do before the run is resumed.
func advice(code watchdog.StopReason) string {
	switch code {
	case watchdog.WallClockExceeded:
		return "resume it; a fresh window begins"
	case watchdog.SessionIdleTimeout:
		return "see that its process is gone, then resume it"
	case watchdog.SessionHostLost:
		return "see why its process died or was cut off, then resume it"
	case watchdog.LoopDetected:
		return "change what it does, then resume it"
	}
	return "remove the cause or raise the limit, then resume it"
}

// CommandLine is a command line of the program about a run, whose ID may look like a flag.
func CommandLine(name, runID string) []string {
	if strings.HasPrefix(runID, "-") {
		return []string{"watchdog", name, "--", runID}
	}
	return []string{"watchdog", name, runID}
}

// Line is the command for a person to copy into a shell, empty where there is none.
func (n Next) Line() string {
	words := make([]string, len(n.Command))
	for i, word := range n.Command {
		words[i] = ShellQuote(word)
	}
	return strings.Join(words, " ")
}

// inSingle writes what single quotes of a POSIX shell or of fish, to which a backslash in them means more, cannot have.
var inSingle = strings.NewReplacer("'", `'\''`, `\`, `'\\'`)

// ShellQuote quotes a word for a POSIX shell, zsh or fish. One with characters that cannot be seen is written with
// escapes, which bash, zsh and ksh read, so that what is copied is what was shown.
func ShellQuote(word string) string {
	switch {
	case word != "" && strings.IndexFunc(word, needsQuotes) < 0:
		return word
	case utf8.ValidString(word) && strings.IndexFunc(word, unseen) < 0:
		return "'" + inSingle.Replace(word) + "'"
	}
	var quoted strings.Builder
	for i, r := range word {
		if _, size := utf8.DecodeRuneInString(word[i:]); r == utf8.RuneError && size == 1 {
			fmt.Fprintf(&quoted, `\x%02x`, word[i])
			continue
		}
		quoted.WriteString(escape(r))
	}
	return "$'" + quoted.String() + "'"
}

func escape(r rune) string {
	switch {
	case r == '\'' || r == '\\':
		return `\` + string(r)
	case !unseen(r):
		return string(r)
	case r < utf8.RuneSelf:
		return fmt.Sprintf(`\x%02x`, r)
	case r > 0xffff:
		return fmt.Sprintf(`\U%08x`, r)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// needsQuotes reports whether a shell may take the character for more than itself, as zsh does =ls and fish %self.
func needsQuotes(r rune) bool {
	return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./:@+,", r)
}

// unseen reports whether a character cannot be seen, or looks like a space and is none.
func unseen(r rune) bool { return r != ' ' && (!unicode.IsGraphic(r) || unicode.IsSpace(r)) }
