// Loop is an agent loop under every limit of a watchdog: it talks to a model that streams over HTTP, calls tools and asks a person, and each
// of them can go wrong. It shows which of these runs end, which are asked to try something else first, and which are left alone.
//
//	go run ./examples/loop                     plays all scenarios at once and prints them one after the other
//	go run ./examples/loop -scenario stall     plays one and prints it as it happens
//
// The model is a real HTTP server that the program starts on the loopback interface (internal/model). What a host would write is in four files:
// the limits (limits.go), the loop that asks for directives at its boundaries and acts on them (agent.go), how a directive reaches a loop that
// waits in a stream (steering.go), and the deep code that gives signals and takes holds without knowing who watches (stream.go, tools.go). The
// rest is the demonstration: what goes wrong (scenario.go), one run with all around it (play.go), and what is printed (report.go).
//
// # Exit status
//
// It is 0 when every run ended, or did not, as it should; 1 when one did not, or was interrupted; and 2 for a command line that cannot
// be meant. Go run has an exit status of its own: build the program to see these.
//
// # What it does not do
//
// There is no language model, no tool and no person in it: they are stand-ins that take the time they are told to. Its
// limits are seconds, so that it can be watched; real ones are minutes and hours.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// The exit statuses.
const (
	exitAsExpected = 0
	exitError      = 1
	exitUsage      = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run is the program, less what ends the process.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	opts, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, err = fmt.Fprint(stdout, usage())
		return complain(err, stderr, exitError)
	case err != nil:
		return complain(fmt.Errorf("%w\nloop -h lists the flags", err), stderr, exitUsage)
	}
	return complain(playAll(ctx, opts, stdout, stderr), stderr, exitError)
}

// complain prints an error, if there is one, and returns the exit status.
func complain(err error, stderr io.Writer, status int) int {
	if err == nil {
		return exitAsExpected
	}
	_, _ = fmt.Fprintf(stderr, "loop: %v\n", err) // there is nowhere else to say it
	return status
}

// errNotAsExpected says that a run ended, or did not, as it should not.
var errNotAsExpected = errors.New("not every run ended as expected")

// playAll plays what was asked for, all of it at once, and prints it in order.
func playAll(ctx context.Context, opts options, stdout, stderr io.Writer) (err error) {
	store, closeStore, err := openStore(ctx, opts.state)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()

	people := stdout
	if opts.json {
		people = stderr
	}
	results, err := playEach(ctx, opts.scenarios, host{loopback, store, opts.events}, people)
	if err != nil {
		return err
	}
	if opts.json {
		err = printJSON(stdout, results)
	} else {
		err = printTable(stdout, results)
	}
	return errors.Join(err, judge(results))
}

// judge returns an error if a run did not go as it should.
func judge(results []result) error {
	if slices.ContainsFunc(results, func(r result) bool { return !r.AsExpected }) {
		return errNotAsExpected
	}
	return nil
}
