// Autosession runs a session of several phases, each a real command, within a wall-clock budget. It shows the main use
// of the library: the session ends with its budget, the reason is recorded, and the session can be continued.
//
//	go run ./examples/autosession                          plan, build, vet and test the built-in project
//	go run ./examples/autosession -budget 5s -hang test    the same with a test that never ends: BLOCKED
//
// The output of a blocked session ends with the command that resumes it. Read session.go first, the session around its
// watchdog. attach.go makes both, phase.go runs the commands, and internal/state keeps what the next process needs. The
// rest is what the user asked for (flags.go, limits.go) and is told (report.go, result.go).
//
// # Sessions
//
// A state directory (-state) holds any number of sessions: session.json is the last one, events.db has the events of
// all. -session ID attaches to an earlier session: it continues with the first phase that is not completed, in the same
// window, after an interrupt, a kill or a failed phase. A stopped session stays BLOCKED and a complete one COMPLETE,
// until -resume opens a fresh window; a complete one runs all its phases again then. Without -session, -resume and
// -events use the last session. Only one process can run a session at a time.
//
// Limits come from the flag, the environment, the file or the defaults, in this order. A window keeps its limits: an
// attach uses them instead of the defaults. A resume does not.
//
// # Exit status
//
// It is 0 when the session is complete, 3 when it is blocked, 2 for a wrong command line, and 1 for everything else: a
// phase that failed, an interrupt (SIGINT, SIGTERM or SIGHUP; a second signal ends the program at once), an unusable
// state directory or limits file. go run has an exit status of its own: build the program to see these.
//
// # What it does not do
//
// It does not store the output of commands in events: each phase has a log beside the session's file. It does not
// detect a stuck phase: watchdog run does that for any command.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

// The exit statuses.
const (
	exitComplete = 0
	exitError    = 1
	exitUsage    = 2
	exitBlocked  = 3
)

func main() {
	hangIfAsked()
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is main without os.Exit.
func run(args []string, stdout, stderr io.Writer) int {
	opts, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, err = fmt.Fprint(stdout, usage())
		return printError(err, stderr, exitComplete)
	case err != nil:
		return printError(fmt.Errorf("%w\nautosession -h lists the flags", err), stderr, exitUsage)
	case opts.events:
		return printError(printEvents(opts, stdout), stderr, exitComplete)
	}
	s := &session{opts: opts, out: &lines{w: stdout}}
	if opts.json {
		s.out.w = stderr
	}
	err = s.run()
	if opts.json {
		err = errors.Join(err, s.result(err).write(stdout))
	}
	return printError(err, stderr, s.exit())
}

// printError prints an error, if there is one, and returns the exit status. It never returns success for an error.
func printError(err error, stderr io.Writer, status int) int {
	if err == nil {
		return status
	}
	_, _ = fmt.Fprintf(stderr, "autosession: %v\n", err)
	if status == exitComplete {
		return exitError
	}
	return status
}
