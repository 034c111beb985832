package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/alecthomas/kong"

	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/loops"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/term"
	"github.com/seed62658d38/watchdog/loop"
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
		judged, err := c.judge(p, name, config)
		if err != nil {
			p.say(term.Plain(judged.Error))
			failed = exitStatus(exitError)
		}
		if err := judged.Print(p.Stdout, common.JSON); err != nil {
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

// judge judges the session that a file has. What it returns with an error says it.
func (c loopsCmd) judge(p Program, name string, rules loop.Config) (*loops.Session, error) {
	in, err := p.openSession(name)
	if err != nil {
		return &loops.Session{File: name, Findings: []loops.Finding{}, Error: err.Error()}, err
	}
	defer func() { _ = in.Close() }() // it was only read
	return loops.Judge(name, in, rules, c.Show)
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
