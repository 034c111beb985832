// Agent is a whole agent, in few lines: it asks a model, which streams its answers, runs the tools that the model asks
// for, has parallel sub-agents, asks a person before it writes, and ends when its money is spent.
//
//	go run ./examples/agent                        with a model that is a part of it, on this machine
//	go run ./examples/agent -cost 0.20             the same with less money: it wraps up in its reserve
//	go run ./examples/agent -base-url https://api.anthropic.com -model NAME -prices prices.json
//
// The key of a real API is read from ANTHROPIC_API_KEY. State is in a folder: a database with the run, and the
// conversation. Whoever kills the program and starts it again goes on in the same window, with what was spent. A run
// that was stopped goes on with -resume, in a fresh one. With -http a page shows the run.
//
// The agent itself is in agent.go and tools.go; session.go attaches it to its run, api.go talks to the model.
//
// # Exit status
//
// It is 0 when the agent is done, 3 when a guard stopped it, 2 for a wrong command line, and 1 for everything else.
//
// # What it does not do
//
// The commands of the model run with what this program may do: run it where that does no harm. The answers of the model
// that comes with it are made up, so that they cost nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/examples/agent/internal/model"
)

// The exit statuses.
const (
	exitDone    = 0
	exitError   = 1
	exitUsage   = 2
	exitStopped = 3
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run is main without os.Exit.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	opts, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, _ = fmt.Fprint(stdout, usage())
		return exitDone
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "agent: %v\nagent -h lists the flags\n", err)
		return exitUsage
	}
	if opts.baseURL == "" {
		server := model.Start(opts.pace)
		defer server.Close()
		opts.baseURL = server.URL
	}
	err = play(ctx, opts, &console{in: stdin, out: stdout})
	var stop *watchdog.Stop
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, watchdog.ErrComplete):
		_, _ = fmt.Fprintf(stdout, "the run in %s is complete; name another folder with -state, or go on with -resume\n",
			opts.state)
		return exitDone
	case errors.As(err, &stop):
		_, _ = fmt.Fprintf(stdout, "\nstopped: %v\nto go on: %s\n", stop.Code, opts.again("-resume"))
		return exitStopped
	case ctx.Err() != nil:
		_, _ = fmt.Fprintf(stdout, "\ninterrupted; to go on: %s\n", opts.again())
		return exitError
	}
	_, _ = fmt.Fprintf(stderr, "agent: %v\n", err)
	return exitError
}
