// Autosession is the library's main job as a program: a session of several phases, each a real command, that ends when its
// wall-clock budget does, that knows afterwards why, and that can be gone on with.
//
//	go run ./examples/autosession                          plan, build, vet and test the project that is shipped
//	go run ./examples/autosession -budget 5s -hang test    the same with a test that never ends: BLOCKED
//
// What BLOCKED prints ends with the command that resumes the session. It is a program of three parts: what the user asked for (flags.go, limits.go,
// project.go), the session around its watchdog (session.go, attach.go, interrupt.go), and what the user is told (report.go, result.go, command.go, events.go).
//
// # Sessions
//
// A session lives in a state directory (-state), which can hold any number of them: session.json is the one that ran
// last, events.db has the events of all. -session ID attaches to an earlier session: it goes on at the first phase that was not completed, in the
// same window, whether its process was interrupted, killed or failed in a phase. A session that was stopped stays BLOCKED until -resume opens
// a fresh window for it. -resume and -events without -session mean the session that ran last. One process runs a session
// at a time; a second one is refused.
//
// Limits come from the flag, the environment, the file or the defaults, in this order. A window keeps those that it was opened
// with: attaching to it puts them before the defaults. A resume begins anew.
//
// # Exit status
//
// It is 0 when the session is complete, 3 when it is blocked, 2 for a command line that cannot be meant, with nothing done, and 1 for
// everything else: a phase that failed, an interrupt (SIGINT, SIGTERM or SIGHUP; a second one ends the program at once), a
// state directory or a file of limits that cannot be used. Go run has an exit status of its own: build the program to see these.
//
// # What it does not do
//
// It does not keep the output of commands in events: that is in a log for each phase, beside the session's file. It does not look
// whether a phase gets anywhere: ../guard does that for any command.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/seed62658d38/watchdog/examples/autosession/internal/phase"
	"github.com/seed62658d38/watchdog/examples/autosession/internal/progress"
)

// The exit statuses.
const (
	exitComplete = 0
	exitError    = 1
	exitUsage    = 2
	exitBlocked  = 3
)

func main() {
	phase.HangIfAsked()
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program, less what ends the process.
func run(args []string, stdout, stderr *os.File) int {
	opts, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, err = fmt.Fprint(stdout, usage())
		return complain(err, stderr, exitComplete)
	case err != nil:
		return complain(fmt.Errorf("%w\nautosession -h lists the flags", err), stderr, exitUsage)
	}
	if opts.events {
		err = printEvents(opts, stdout)
		return complain(err, stderr, exitComplete)
	}
	return runSession(opts, stdout, stderr)
}

// runSession shows progress on standard output, or beside it where that is for the result.
func runSession(opts options, stdout, stderr *os.File) int {
	people := stdout
	if opts.json {
		people = stderr
	}
	show := progress.On(people)
	s := &session{opts: opts, show: show}
	err := s.run()
	show.Close()
	if opts.json {
		err = errors.Join(err, writeResult(stdout, s.result(err)))
	}
	return complain(err, stderr, s.exit())
}

// complain prints an error, if there is one, and returns the exit status: an error cannot be a success.
func complain(err error, stderr *os.File, status int) int {
	if err == nil {
		return status
	}
	_, _ = fmt.Fprintf(stderr, "autosession: %v\n", err) // there is nowhere else to say it
	if status == exitComplete {
		return exitError
	}
	return status
}
