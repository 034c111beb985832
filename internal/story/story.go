package story

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/session"
)

// A Record is what is stored about one run.
type Record struct {
	RunID string
	// Parent is the run whose layer it is told as. Empty tells the run that the row or the last event is of.
	Parent string
	// Events are those of the run's aggregate, as [watchdog.EventStore.Read] returns them. Row is its session, nil if it
	// has none.
	Events []watchdog.Event
	Row    *session.Session
	// Layers are the runs below it, MoreLayers how many there are besides.
	Layers     []Record
	MoreLayers int
}

// MaxLayers is how many layers are read for a story, each with a query of its own. There may be thousands.
const MaxLayers = 32

// ReadLayers reads the layers of the run: of the sorted IDs the first that come after one, all of them after an empty
// one.
func (r *Record) ReadLayers(ctx context.Context, store event.LayerStore, after string) error {
	rest, err := store.Layers(ctx, r.RunID)
	if err != nil {
		return err
	}
	from, found := slices.BinarySearch(rest, after)
	if found {
		from++
	}
	rest = rest[from:]
	r.MoreLayers = max(len(rest)-MaxLayers, 0)
	for _, runID := range rest[:len(rest)-r.MoreLayers] {
		events, err := store.Read(ctx, event.AggregateType, runID)
		if err != nil {
			return err
		}
		r.Layers = append(r.Layers, Record{RunID: runID, Parent: r.RunID, Events: events})
	}
	return nil
}

// A State is where a run stands.
type State string

// The states.
const (
	// Running is a run whose row says that a process runs it.
	Running State = "running"
	// Ending is a running run whose command is being ended: it was sent a signal and has not ended yet.
	Ending State = "ending"
	// Stopped is a run that a guard ended.
	Stopped State = "stopped"
	// Complete is a run that has done its work.
	Complete State = "complete"
	// Failed is a run whose command ended by itself and failed.
	Failed State = "failed"
	// Finished is a run that its host closed, or whose command exited by itself.
	Finished State = "finished"
	// Interrupted is a run that was ended from outside, or whose process is gone.
	Interrupted State = "interrupted"
	// Unknown is a run without an end and without a row that says whether it lives.
	Unknown State = "unknown"
)

// Live reports whether the row of a run says that a process runs it.
func (s State) Live() bool { return s == Running || s == Ending }

// A Story is what became of a run. Its JSON form is part of the contract of the command line: fields are added and
// never renamed. Times are UTC to the microsecond, lengths in seconds.
type Story struct {
	RunID  string `json:"run_id"`
	Parent string `json:"parent,omitempty"`
	Host   string `json:"host,omitempty"`
	State  State  `json:"state"`
	// ToldAt is the time at which a run that is not over had what the story says.
	ToldAt time.Time `json:"told_at"`
	// Attempt is the number of the latest attempt, Resumes how often a sweeper's policy had the run resumed.
	Attempt int `json:"attempt,omitempty"`
	Resumes int `json:"resumes,omitempty"`
	// StartedAt is the start of the window that the run is in. Before are the windows before that, oldest first.
	StartedAt time.Time `json:"started_at,omitzero"`
	Before    []Window  `json:"windows_before,omitempty"`
	// Allowed are the limits that are known, Reserve is the part of the wall clock that is kept for wrapping up.
	Allowed    []Limit     `json:"allowed,omitempty"`
	Reserve    Span        `json:"reserve_seconds,omitempty"`
	Extensions []Extension `json:"extensions,omitempty"`
	// Elapsed is how long the window lasted, without Paused, in which holds had stopped its wall clock.
	Elapsed Span            `json:"elapsed_seconds"`
	Paused  Span            `json:"paused_seconds,omitempty"`
	Spent   []session.Spent `json:"spent,omitempty"`
	// Vouched says that the process of a running run holds a lease. Silence is how long a running run has certainly been
	// silent; 0 says nothing.
	Vouched bool `json:"vouched,omitempty"`
	Silence Span `json:"silence_seconds,omitempty"`
	// AgentsStopped says that a sweeper has stopped what works on a running run, or tried to, and could not cancel it yet.
	AgentsStopped bool `json:"agents_stopped,omitempty"`
	// Behind says that a running run was silent and has woken up, and that its process cannot write the row.
	Behind bool `json:"behind,omitempty"`
	// Escalation is how far the end of the command is, of a run that is ending.
	Escalation *session.Escalation `json:"ending,omitempty"`
	// OpenHolds is how many holds the run had open when its process said so last.
	OpenHolds int `json:"open_holds,omitempty"`
	// Noted is the last thing that the run noted.
	Noted    string    `json:"noted,omitempty"`
	Asked    []Request `json:"asked,omitempty"`
	Holds    []Hold    `json:"holds,omitempty"`
	Overruns []Overrun `json:"overruns,omitempty"`
	// Interrupts are all of the window, also those after which another attempt went on.
	Interrupts []Interrupt `json:"interrupts,omitempty"`
	End        *End        `json:"end,omitempty"`
	Command    *Command    `json:"command,omitempty"`
	// Layers are the runs below this one whose last event is latest, the latest first. Those of windows before are left
	// out.
	Layers     []Layer `json:"layers,omitempty"`
	MoreLayers int     `json:"more_layers,omitempty"`
	Next       Next    `json:"next"`
	// Others are events that tell nothing of this run: those of another writer, and those that cannot be read.
	Others []Other `json:"others,omitempty"`
}

// A Window is a window before the one that the run is in.
type Window struct {
	StartedAt time.Time           `json:"started_at"`
	EndedAt   time.Time           `json:"ended_at,omitzero"`
	Code      watchdog.StopReason `json:"code,omitempty"`
	// ExitStatus and Signal are how a command ended that failed.
	ExitStatus *int   `json:"exit_status,omitempty"`
	Signal     string `json:"signal,omitempty"`
	// Corrected says that the end was wrong: what was cancelled had finished.
	Corrected bool `json:"corrected,omitempty"`
	// LastEventAt is the time of its last event. Holds are those that stopped its wall clock.
	LastEventAt time.Time `json:"last_event_at,omitzero"`
	Holds       []Hold    `json:"holds,omitempty"`
}

// String says what became of the window.
func (w Window) String() string {
	text := "left open"
	switch w.Code {
	case "":
	case session.ReasonFailed:
		text = "failed"
		if how := (End{Signal: w.Signal, ExitStatus: w.ExitStatus}).ofFailure(); how != "" {
			text += " (" + how + ")"
		}
	case record.CompleteReason:
		text = "complete"
	default:
		text = fmt.Sprintf("stopped (%s)", w.Code)
	}
	if !w.EndedAt.IsZero() {
		text += fmt.Sprintf(" after %v", Span(w.EndedAt.Sub(w.StartedAt)))
	}
	if w.Corrected {
		text += "; corrected: it had finished"
	}
	return text
}

// An Other is an event that tells nothing of the run.
type Other struct {
	ID      string    `json:"id"`
	At      time.Time `json:"at"`
	Type    string    `json:"type"`
	Problem string    `json:"problem"`
}

// A Layer is a run below another.
type Layer struct {
	RunID   string              `json:"run_id"`
	State   State               `json:"state"`
	At      time.Time           `json:"at"` // of its end, or of its last event
	Code    watchdog.StopReason `json:"code,omitempty"`
	Elapsed Span                `json:"elapsed_seconds"`
	// StartedAt is the start of its window, Meaning is Code in words, LeftAlive says what of it is left alive.
	StartedAt time.Time `json:"started_at,omitzero"`
	Meaning   string    `json:"meaning,omitempty"`
	LeftAlive string    `json:"left_alive,omitempty"`
}

// A Next is how to go on with a run.
type Next struct {
	Advice string `json:"advice"`
	// Command is a command line that does it, empty where there is none.
	Command []string `json:"command,omitempty"`
}

// A Span is a length of time. Its JSON form is in seconds.
type Span time.Duration

// MarshalJSON writes seconds, to the microsecond.
func (s Span) MarshalJSON() ([]byte, error) {
	return json.Marshal(record.ExactSeconds(time.Duration(s)))
}

// UnmarshalJSON reads them.
func (s *Span) UnmarshalJSON(text []byte) error {
	var seconds record.Seconds
	err := json.Unmarshal(text, &seconds)
	*s = Span(record.Duration(seconds))
	return err
}

// String is the length as people read it: to the second, or for less than a minute to the millisecond.
func (s Span) String() string {
	d := time.Duration(s)
	unit := time.Second
	if d.Abs() < time.Minute {
		unit = time.Millisecond
	}
	text := d.Truncate(unit).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

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
		return Next{Advice: t.ofRunning(), Command: CommandLine("why", t.RunID)}
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
