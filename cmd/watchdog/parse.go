package main

import (
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// A runLine is the command line of run alone. A command would wait longer for the model of a commandLine.
type runLine struct {
	Common `embed:""`

	Run runCmd `cmd:""`
}

// A parsedLine is a command line that is valid.
type parsedLine struct {
	*kong.Context
	common *Common
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

// mayBeFlag reports whether a variable may stand for a flag of any command, which the model of run alone does not know.
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
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true}),
		kong.UsageOnError(),
	)...)
}
