package loops

import (
	"fmt"
	"io"
	"strings"

	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/term"
	"github.com/seed62658d38/watchdog/loop"
	"github.com/seed62658d38/watchdog/transcript"
)

// A Session is what loops prints of a file as JSON. Fields are added and never renamed.
type Session struct {
	File          string    `json:"file"`
	Format        string    `json:"format,omitempty"`
	Lines         int       `json:"lines"`
	Unknown       int       `json:"unknown_lines"`
	Calls         int       `json:"calls"`
	Unanswered    int       `json:"unanswered_calls"`
	Persons       int       `json:"persons"`
	Agents        int       `json:"agents"` // the most in one conversation
	Conversations int       `json:"conversations"`
	Timed         bool      `json:"timed"`
	Cut           bool      `json:"cut"`
	Asked         int       `json:"asked"`
	Ended         int       `json:"ended"`
	Findings      []Finding `json:"findings"`
	Error         string    `json:"error,omitempty"`
}

// A Finding is something that repeats in a session. The numbers of steps are those of the agent, from 1; 0 is none.
type Finding struct {
	Agent        string `json:"agent,omitempty"` // a sub-agent
	Conversation int    `json:"conversation,omitempty"`
	Rule         string `json:"rule"`
	Tool         string `json:"tool"`
	AskedStep    int    `json:"asked_step,omitempty"`
	AskedLine    int    `json:"asked_line,omitempty"`
	EndedStep    int    `json:"ended_step,omitempty"`
	EndedLine    int    `json:"ended_line,omitempty"`
	LastStep     int    `json:"last_step"` // that was asked about or ended
	Period       int    `json:"period,omitempty"`
	Rounds       int    `json:"rounds"`
	Since        int    `json:"since"`
	Pattern      string `json:"pattern"`
	Says         string `json:"says"`
	Input        string `json:"input,omitempty"`  // with --show
	Result       string `json:"result,omitempty"` // with --show
}

func (f *Finding) update(turn *transcript.Turn, v loop.Verdict) {
	f.Tool, f.Period, f.Rounds, f.Since, f.Says = v.Tool, v.Period, v.Rounds, v.Since, v.String()
	f.LastStep = turn.First
}

// Print prints one object, or a line for a session without loops, and two for each of the loops.
func (s *Session) Print(out io.Writer, asJSON bool) error {
	if asJSON {
		return term.PrintLine(out, s)
	}
	if s.Error != "" {
		return nil // it was said
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", term.Plain(s.File), s.summary())
	for i := range s.Findings {
		s.Findings[i].write(&b)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// summary says in one line what the session is, and what of it was not judged.
func (s *Session) summary() string {
	says := fmt.Sprintf("%s, %s", s.Format, counted(s.Calls, "step"))
	if s.Agents > 1 {
		says += fmt.Sprintf(" of %d agents", s.Agents)
	}
	if s.Conversations > 1 {
		says += fmt.Sprintf(" in %d conversations", s.Conversations)
	}
	switch {
	case s.Asked > 0 && s.Ended > 0:
		says += fmt.Sprintf(": would have been asked %s, and ended %s", times(s.Asked), times(s.Ended))
	case s.Asked > 0:
		says += fmt.Sprintf(": would have been asked %s", times(s.Asked))
	case s.Ended > 0:
		says += fmt.Sprintf(": would have been ended %s", times(s.Ended))
	case s.Calls > 0:
		says += ": no loop"
	}
	return says + s.notJudged()
}

func (s *Session) notJudged() (says string) {
	if s.Unanswered > 0 {
		says += fmt.Sprintf("; %s without a result", counted(s.Unanswered, "call"))
	}
	if s.Unknown > 0 {
		says += fmt.Sprintf("; %d of %d lines not known", s.Unknown, s.Lines)
	}
	if s.Calls > 0 && !s.Timed {
		says += "; without times, so that the rules of gaps were not judged"
	}
	if s.Cut {
		says += "; the end is cut off"
	}
	return says
}

func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprint(n, " times")
}

const maxShownText = 400

func (f *Finding) write(b *strings.Builder) {
	b.WriteString("  ")
	if f.Agent != "" {
		fmt.Fprintf(b, "%s ", term.Plain(f.Agent))
	}
	if f.Conversation > 0 {
		fmt.Fprintf(b, "conversation %d ", f.Conversation)
	}
	var at []string
	if f.AskedStep > 0 {
		at = append(at, fmt.Sprintf("asked at step %d (line %d)", f.AskedStep, f.AskedLine))
	}
	if f.EndedStep > 0 {
		at = append(at, fmt.Sprintf("ended at step %d (line %d)", f.EndedStep, f.EndedLine))
	}
	if f.LastStep > max(f.EndedStep, f.AskedStep) {
		at = append(at, fmt.Sprintf("on until step %d", f.LastStep))
	}
	fmt.Fprintf(b, "%s: %s %s\n    %s\n", strings.Join(at, ", "), f.Rule, f.Pattern, term.Plain(f.Says))
	if f.Input != "" || f.Result != "" {
		fmt.Fprintf(b, "    input   %s\n", term.Cut(term.Plain(f.Input), maxShownText))
		fmt.Fprintf(b, "    result  %s\n", term.Cut(term.Plain(f.Result), maxShownText))
	}
}
