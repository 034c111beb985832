package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/seed62658d38/watchdog/config"
)

const description = "End runs that hang, and say why.\n\n" +
	"watchdog run guards any command. The other commands look at sessions that hosts keep in a database, with --store."

// A commandLine is all that can be written on the command line. Kong parses it, and generates the help from it. The
// commands with the tag limits read those.
type commandLine struct {
	Common `embed:""`

	Run      runCmd      `cmd:"" limits:"" help:"Run a command, and end it with all that it started when it is stuck."`
	Why      whyCmd      `cmd:"" help:"Tell why a run, or a command that stalled, ended, and how to go on."`
	Sessions sessionsCmd `cmd:"" help:"List the sessions in a store."`
	Complete completeCmd `cmd:"" help:"Record that a run has done its work."`
	Resume   resumeCmd   `cmd:"" help:"Open a fresh window for a run that was cancelled."`
	Sweep    sweepCmd    `cmd:"" limits:"" help:"Cancel the sessions in a store that have stalled."`
	Serve    serveCmd    `cmd:"" limits:"" help:"Sweep a store, and serve a page of its runs."`
	Check    checkCmd    `cmd:"" limits:"" help:"Say which limits are in force, and where each comes from."`
	Version  versionCmd  `cmd:"" help:"Print the version, for bug reports; so do --version and -V."`
	Help     helpCmd     `cmd:"" help:"Print the help of a command, with all of its flags."`
}

// Run runs a command line and returns the exit status.
func (p Program) Run(ctx context.Context, args []string) (status int) {
	defer func() {
		if r := recover(); r != nil {
			h, ok := r.(helped)
			if !ok {
				panic(r)
			}
			status = int(h)
		}
	}()
	if len(args) == 0 {
		p.Stdout, status = p.Stderr, exitError
		args = []string{"help"}
	}
	if args[0] == "--version" || args[0] == "-V" {
		args = slices.Concat([]string{"version"}, args[1:])
	}
	parsed, err := p.parse(args)
	if err != nil {
		return p.refuse(err)
	}
	if err := parsed.unread(); err != nil {
		return p.fail(err)
	}
	parsed.BindTo(ctx, (*context.Context)(nil))
	parsed.Bind(p, parsed.common, parsed.Model, parsed.Kong)
	return max(status, p.fail(parsed.Run()))
}

// A helped is the panic of a command line that wanted help: kong exits after it, and a Program returns.
type helped int

// refuse says what is wrong with a command line, and where help is.
func (p Program) refuse(err error) int {
	command := ""
	var wrong *kong.ParseError
	if errors.As(err, &wrong) && wrong.Context != nil && wrong.Context.Command() != "" {
		command = strings.Fields(wrong.Context.Command())[0] + " "
	}
	status := p.fail(retired(command, err))
	_, _ = fmt.Fprintln(p.Stderr, "watchdog "+command+"--help says how it is used")
	return status
}

// retired returns what to do instead of an unknown command or flag that was one, else err.
func retired(command string, err error) error {
	kind := "command"
	unknown, found := strings.CutPrefix(err.Error(), "unexpected argument ")
	if !found {
		kind = "flag"
		unknown, found = strings.CutPrefix(err.Error(), "unknown flag ")
	}
	unknown, _, _ = strings.Cut(unknown, ", did you mean ")
	if instead, gone := config.Retired(kind, command+unknown); found && gone {
		return fmt.Errorf("%s%s is gone; %s", command, unknown, instead)
	}
	return err
}

// A runLine is the command line of run alone. A command would wait longer for the model of a commandLine.
type runLine struct {
	Common `embed:""`

	Run runCmd `cmd:"" limits:""`
}

// A parsedLine is a command line that is valid.
type parsedLine struct {
	*kong.Context
	common *Common
}

// unread returns an error if --config was given to a command that reads no limits. WATCHDOG_CONFIG is for all of them.
func (l *parsedLine) unread() error {
	command := l.Selected()
	given := slices.ContainsFunc(l.Path, func(p *kong.Path) bool { return p.Flag != nil && p.Flag.Name == "config" })
	if !given || command == nil || command.Tag.Has("limits") {
		return nil
	}
	return fmt.Errorf("watchdog %s reads no limits; leave out --config", command.Name)
}

// parse parses a command line. What is none of run alone, such as help or a mistake, is parsed again as one of all
// commands, which says what there is to say.
func (p Program) parse(args []string) (*parsedLine, error) {
	if len(args) > 0 && args[0] == "run" && !slices.ContainsFunc(os.Environ(), mayBeFlag) {
		var line runLine
		if parsed, err := p.parseAs(&line, args, kong.NoDefaultHelp()); err == nil {
			return &parsedLine{parsed, &line.Common}, nil
		}
	}
	var line commandLine
	parsed, err := p.parseAs(&line, args)
	return &parsedLine{parsed, &line.Common}, err
}

// mayBeFlag reports whether a variable may stand for a flag of any command, which the model of run alone does not know,
// or be one of the configuration.
func mayBeFlag(variable string) bool { return strings.HasPrefix(variable, "WATCHDOG_") }

func (p Program) parseAs(line any, args []string, options ...kong.Option) (*kong.Context, error) {
	parser, err := p.parser(line, options...)
	if err != nil {
		return nil, err
	}
	return parser.Parse(args)
}

func (p Program) parser(line any, options ...kong.Option) (*kong.Kong, error) {
	return kong.New(line, append(options,
		kong.Name("watchdog"), kong.Description(description),
		kong.Writers(p.Stdout, p.Stderr), kong.Exit(func(status int) { panic(helped(status)) }),
		kong.ConfigureHelp(helpOptions), kong.Help(printHelp),
		reads(readLength), reads(readSignal), kong.UsageOnError(),
	)...)
}
