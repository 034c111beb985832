// Loop is an agent loop under every limit of a watchdog. It talks to a model that streams over HTTP, calls tools, asks
// a person and hands work to sub-agents, and each of them can go wrong. It shows which runs end, which are asked to try
// something else first, and which are left alone. Scenario cap is money that three sub-agents share, cycle an agent
// that goes round in a circle, and batch one that only seems to.
//
//	go run ./examples/loop                     plays all scenarios at once and prints them one after the other
//	go run ./examples/loop -scenario stall     plays one and prints it as it happens
//
// The model is a real HTTP server that the program starts on the loopback interface (internal/model). What a host
// would write is in five files: the limits (limits.go); the loop that makes each turn in a Try, so that a directive
// ends a request that hangs, that polls the other directives at its boundaries, and that tells the watchdog what each
// tool answered (agent.go); deep code that gives signals and takes holds through its context (stream.go, tools.go); and
// sub-agents in layers of the run, which ask for admission before each call (team.go). The rest is the demonstration:
// the faults (scenario.go), one run with everything around it (play.go), and the output (report.go).
//
// # Exit status
//
// It is 0 when every run ended as expected; 1 when one did not, and after an interrupt; and 2 for a wrong command line.
// go run has an exit status of its own: build the program to see these.
//
// # What it does not do
//
// It uses no language model, tools or persons: these only wait for a given time, and the prices are made up. The limits
// are seconds and one euro, short enough to watch; real ones are minutes and hours. What was spent is kept in memory.
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

// run is main without os.Exit.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	opts, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, err = fmt.Fprint(stdout, usage())
		return printError(err, stderr, exitError)
	case err != nil:
		return printError(fmt.Errorf("%w\nloop -h lists the flags", err), stderr, exitUsage)
	}
	return printError(playAll(ctx, opts, stdout, stderr), stderr, exitError)
}

// printError prints an error, if there is one, and returns the exit status.
func printError(err error, stderr io.Writer, status int) int {
	if err == nil {
		return exitAsExpected
	}
	_, _ = fmt.Fprintf(stderr, "loop: %v\n", err)
	return status
}

// errNotAsExpected says that a run did not end as expected.
var errNotAsExpected = errors.New("not every run ended as expected")

// playAll plays the chosen scenarios at once and prints them in order.
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
	if ctx.Err() != nil {
		return errors.Join(err, errors.New("interrupted: the runs above say where; to go on, play them again, "+
			"with -scenario one alone"))
	}
	return errors.Join(err, checkResults(results))
}

// checkResults returns an error if a run did not go as expected.
func checkResults(results []result) error {
	if slices.ContainsFunc(results, func(r result) bool { return !r.AsExpected }) {
		return errNotAsExpected
	}
	return nil
}
