// Package loops judges sessions of agents that are over by the rules of package loop: where an agent would have been
// asked to do something else, and where it would have been ended.
//
// It opens no file, and keeps none of the text of a session that it is not to show.
package loops

import (
	"errors"
	"hash/maphash"
	"io"

	"github.com/seed62658d38/watchdog/loop"
	"github.com/seed62658d38/watchdog/transcript"
)

// Judge judges the session that a file of a name has, to its end. What it returns with an error says it. The rules
// are ones that [loop.New] takes. With show the findings have the input and the result.
func Judge(name string, in io.Reader, rules loop.Config, show bool) (*Session, error) {
	j := judge{
		rules: rules, show: show, agents: map[string]*loop.Detector{}, seen: map[uint64]int{},
		Session: Session{File: name, Findings: []Finding{}},
	}
	err := j.session(in)
	if err != nil {
		j.Error = name + ": " + err.Error()
	}
	return &j.Session, err
}

// A judge judges a session. Each of its agents has a detector.
type judge struct {
	Session

	rules  loop.Config
	show   bool
	last   int                       // the number of the conversation
	agents map[string]*loop.Detector // those of the conversation
	seen   map[uint64]int            // how often an agent had an input or a result, if they are shown
}

func (j *judge) session(in io.Reader) error {
	r := transcript.NewReader(in)
	for {
		turn, err := r.Next()
		if err == nil {
			j.turn(&turn)
			continue
		}
		c := r.Coverage()
		j.Format, j.Lines, j.Unknown, j.Calls, j.Unanswered = string(c.Format), c.Lines, c.Unknown, c.Calls, c.Unanswered
		j.Persons, j.Timed, j.Cut = c.Persons, c.Timed, c.Cut
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
}

func (j *judge) turn(turn *transcript.Turn) {
	if turn.Conversation != j.last {
		j.last = turn.Conversation
		j.Conversations++
		clear(j.agents)
	}
	d := j.agents[turn.Agent]
	if d == nil {
		d, _ = loop.New(j.rules) // it was checked
		j.agents[turn.Agent] = d
		j.Agents = max(j.Agents, len(j.agents))
	}
	if j.show {
		j.remember(turn)
	}
	switch v := d.Step(turn.Steps...); v.Advice {
	case loop.Ask:
		d.Delivered()
		f := j.found(turn, v)
		f.AskedStep, f.AskedLine = turn.First, turn.Line
		j.Asked++
	case loop.End:
		f := j.known(turn, v)
		if f == nil {
			f = j.found(turn, v)
		}
		f.update(turn, v)
		if f.EndedStep == 0 {
			f.EndedStep, f.EndedLine = turn.First, turn.Line
			j.Ended++
		}
	}
}

func (j *judge) found(turn *transcript.Turn, v loop.Verdict) *Finding {
	f := Finding{Agent: turn.Agent, Rule: string(v.Rule), Pattern: v.Pattern}
	if turn.Conversation > 1 {
		f.Conversation = turn.Conversation
	}
	f.update(turn, v)
	if j.show {
		s := j.repeated(turn, v.Tool)
		f.Input, f.Result = string(s.Input), string(s.Outcome)
	}
	j.Findings = append(j.Findings, f)
	return &j.Findings[len(j.Findings)-1]
}

// known returns what was found before and goes on, or nil.
func (j *judge) known(turn *transcript.Turn, v loop.Verdict) *Finding {
	for i := len(j.Findings) - 1; i >= 0; i-- {
		f := &j.Findings[i]
		if f.Agent == turn.Agent && max(f.Conversation, 1) == turn.Conversation && f.Pattern == v.Pattern {
			return f
		}
	}
	return nil
}

// maxSeen bounds the memory for what is shown.
const maxSeen = 1 << 16

var seed = maphash.MakeSeed()

// remember counts the inputs and the results of a turn.
func (j *judge) remember(turn *transcript.Turn) {
	if len(j.seen) > maxSeen {
		clear(j.seen)
	}
	for i := range turn.Steps {
		input, result := digests(turn.Agent, &turn.Steps[i])
		j.seen[input]++
		j.seen[result]++
	}
}

// repeated returns the call that repeats: of those of the tool the one whose input and result came most often.
func (j *judge) repeated(turn *transcript.Turn, tool string) *loop.Step {
	best, most := &turn.Steps[0], 0
	for i := range turn.Steps {
		s := &turn.Steps[i]
		input, result := digests(turn.Agent, s)
		if times := j.seen[input] + j.seen[result]; s.Tool == tool && times > most {
			best, most = s, times
		}
	}
	return best
}

func digests(agent string, s *loop.Step) (input, result uint64) {
	of := agent + "\x00" + s.Tool
	return maphash.String(seed, of+"\x00i"+string(s.Input)), maphash.String(seed, of+"\x00r"+string(s.Outcome))
}
