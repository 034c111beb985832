package main

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"slices"

	"github.com/alecthomas/kong"

	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/term"
	"github.com/seed62658d38/watchdog/loop"
	"github.com/seed62658d38/watchdog/transcript"
)

//nolint:lll // a tag cannot be broken
type loopsCmd struct {
	Files    []string `arg:"" name:"file" help:"The session files of agents; - is the standard input."`
	Show     bool     `help:"Show the call and its result, which may hold secrets."`
	Strict   bool     `help:"Take nothing for a poll but what waits, and end all that is asked about."`
	Waits    string   `placeholder:"ADVICE" help:"What to do about what waits and waits: go, ask or end."`
	Volatile []string `placeholder:"NAME" sep:"none" help:"Leave fields and lines of that name out of results. It can be repeated."`
}

// Help is the end of the command's help.
func (loopsCmd) Help() string {
	return `Says where the rules of loops would have asked an agent to do something else,
and where they would have ended it, if they had watched these sessions. Where they
ask it takes it that the agent was told. It reads the sessions of Claude Code and
Codex, what opencode export prints, the trajectories of SWE-agent, and lists of
chat messages, and tells them by their content. A sub-agent's file is named like
any other. Steps are counted for each agent. The rules are those of --config;
without their classes of tools these are guessed.

It shows names of tools, numbers and digests, and no text without --show.

With --json each file is one object: file, format, lines, unknown_lines, calls,
unanswered_calls, persons, agents, conversations, timed, cut, asked, ended,
findings, and error if it cannot be read. A finding has agent, conversation,
rule, tool, asked_step, asked_line, ended_step, ended_line, last_step, period,
rounds, since, pattern, says, and with --show input and result.

If more than 5 % of the lines of a file are not known, that is an error. The
exit status is 0 whatever is found, and 125 after an error.

Examples:
  watchdog loops ~/.claude/projects/*/*.jsonl
  watchdog loops ~/.codex/sessions/2026/11/27/*.jsonl
  opencode export SESSION | watchdog loops --json -
  watchdog loops --waits end --volatile request_id run.traj`
}

// Run judges each file.
func (c loopsCmd) Run(p Program, common *Common, model *kong.Application) error {
	limits, err := common.limits(model)
	if err != nil {
		return p.failEach(err)
	}
	config := c.over(limits.Loop)
	if _, err := loop.New(config); err != nil {
		return err
	}
	var failed error
	for _, name := range c.Files {
		judged, err := c.judgeFile(p, name, config)
		if err != nil {
			p.say(term.Plain(judged.Error))
			failed = exitStatus(exitError)
		}
		if err := judged.print(p.Stdout, common.JSON); err != nil {
			return err
		}
	}
	return failed
}

// over returns the rules that are set, with the flags over them. Rules that are off are to be seen at work here.
func (c loopsCmd) over(config loop.Config) loop.Config {
	if config.Mode == loop.Off {
		config.Mode = loop.On
	}
	if c.Strict {
		config.Mode = loop.Strict
	}
	if c.Waits != "" {
		config.Waits = loop.Advice(c.Waits)
	}
	config.Volatile = slices.Concat(config.Volatile, c.Volatile)
	return config
}

// judgeFile judges the session that a file has. What it returns with an error says it.
func (c loopsCmd) judgeFile(p Program, name string, config loop.Config) (judgedSession, error) {
	in, err := p.openSession(name)
	if err != nil {
		return judgedSession{File: name, Findings: []foundLoop{}, Error: err.Error()}, err
	}
	defer func() { _ = in.Close() }() // it was only read
	j := judge{
		config: config, show: c.Show, agents: map[string]*loop.Detector{}, seen: map[uint64]int{},
		judgedSession: judgedSession{File: name, Findings: []foundLoop{}},
	}
	if err = j.session(in); err != nil {
		j.Error = name + ": " + err.Error()
	}
	return j.judgedSession, err
}

func (p Program) openSession(name string) (*os.File, error) {
	if name == "-" {
		return p.Stdin, nil
	}
	in, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err := in.Stat(); err == nil && info.IsDir() {
		_ = in.Close()
		return nil, fmt.Errorf("%s: it is a folder; name the files in it", name)
	}
	return in, nil
}

// A judge judges a session. Each of its agents has a detector.
type judge struct {
	judgedSession

	config loop.Config
	show   bool
	last   int                       // the number of the conversation
	agents map[string]*loop.Detector // those of the conversation
	seen   map[uint64]int            // how often an agent had an input or a result, if they are shown
}

// session judges what a reader has, to its end.
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
		d, _ = loop.New(j.config) // it was checked
		j.agents[turn.Agent] = d
		j.Agents = max(j.Agents, len(j.agents))
	}
	if j.show {
		j.remember(turn)
	}
	switch v := d.Step(turn.Steps...); v.Advice {
	case loop.Ask:
		d.Delivered()
		j.found(turn, v).asks(turn)
		j.Asked++
	case loop.End:
		f := j.known(turn, v)
		if f == nil {
			f = j.found(turn, v)
		}
		if f.ends(turn, v) {
			j.Ended++
		}
	}
}

// found adds what was found in a turn.
func (j *judge) found(turn *transcript.Turn, v loop.Verdict) *foundLoop {
	f := foundLoop{Agent: turn.Agent, Rule: string(v.Rule), Pattern: v.Pattern}
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
func (j *judge) known(turn *transcript.Turn, v loop.Verdict) *foundLoop {
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

// digests are those of an input and a result.
func digests(agent string, s *loop.Step) (input, result uint64) {
	of := agent + "\x00" + s.Tool
	return maphash.String(seed, of+"\x00i"+string(s.Input)), maphash.String(seed, of+"\x00r"+string(s.Outcome))
}
