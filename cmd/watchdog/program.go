package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"
)

// The exit statuses of the program itself, which are those of GNU timeout. A command that was run has its own.
const (
	exitStopped       = 124
	exitError         = 125
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignalled     = 128
)

// A Program is the watchdog command with its standard files.
type Program struct {
	Stdin, Stdout, Stderr *os.File
}

// An exitStatus is the error of a command that has said what there was to say.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// A helped is the panic of a command line that wanted help: kong exits after it, and a Program returns.
type helped int

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
	parsed, err := p.parse(args)
	if err != nil {
		return p.refuse(err)
	}
	parsed.BindTo(ctx, (*context.Context)(nil))
	parsed.Bind(p, parsed.common, parsed.Model)
	return p.fail(parsed.Run())
}

// refuse says what is wrong with a command line, and where help is.
func (p Program) refuse(err error) int {
	status := p.fail(err)
	help := "watchdog --help"
	var wrong *kong.ParseError
	if errors.As(err, &wrong) && wrong.Context != nil && wrong.Context.Command() != "" {
		help = "watchdog " + strings.Fields(wrong.Context.Command())[0] + " --help"
	}
	_, _ = fmt.Fprintln(p.Stderr, help+" says how it is used")
	return status
}

// fail says an error, if there is one, and returns the exit status.
func (p Program) fail(err error) int {
	var status exitStatus
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return int(status)
	}
	p.say(err.Error())
	return exitError
}

// say prints one line of the program; joined errors stay on it.
func (p Program) say(text string) {
	_, _ = fmt.Fprintln(p.Stderr, "watchdog: "+strings.ReplaceAll(text, "\n", "; "))
}
