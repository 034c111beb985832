// Agent is a whole agent, in few lines: it asks a model, which streams its answers, runs the tools that the model asks
// for, has parallel sub-agents, asks a person before it writes, and ends when its money is spent.
//
//	go run ./examples/agent                        with a model that is a part of it, on this machine
//	go run ./examples/agent -cost 0.20             the same with less money: it wraps up in its reserve
//	go run ./examples/agent -base-url https://api.anthropic.com -model NAME -prices 3,15
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
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/examples/agent/internal/model"
	"github.com/seed62658d38/watchdog/examples/internal/program"
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
	case errors.As(err, &stop) && stop.Parent == "": // not a sub-agent's
		_, _ = fmt.Fprintf(stdout, "\nstopped: %v\nto go on: %s\n", stop.Code, opts.again("-resume"))
		return exitStopped
	case ctx.Err() != nil:
		_, _ = fmt.Fprintf(stdout, "\ninterrupted; to go on: %s\n", opts.again())
		return exitError
	}
	_, _ = fmt.Fprintf(stderr, "agent: %v\n", err)
	return exitError
}

// madeUp are the prices of the model that comes with the program.
const madeUp = "3,15"

// options are the parsed command line.
type options struct {
	baseURL, model, key string
	price               price
	cost                watchdog.Money
	state, http         string
	resume, yes         bool
	task                string
	pace                time.Duration
}

func parse(args []string) (o options, err error) {
	flags := o.flags()
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		o.task = strings.Join(flags.Args(), " ")
	}
	prices := flags.Lookup("prices").Value.String()
	if prices == "" && o.baseURL != "" {
		return o, fmt.Errorf("-base-url %s needs -prices, what its model costs", o.baseURL)
	}
	_, err = fmt.Sscanf(cmp.Or(prices, madeUp), "%f,%f", &o.price.in, &o.price.out)
	if err != nil || !(o.price.in > 0 && o.price.out > 0) {
		return o, fmt.Errorf("-prices %q are not two prices; write them as 3,15", prices)
	}
	units, err := strconv.ParseFloat(flags.Lookup("cost").Value.String(), 64)
	if err != nil || !(units > 0 && units < 1e6) {
		return o, fmt.Errorf("-cost %q is no amount of money; write one such as 0.50", flags.Lookup("cost").Value)
	}
	o.cost = watchdog.Money{Micros: int64(units * 1e6), Currency: currency}
	o.key = os.Getenv("ANTHROPIC_API_KEY")
	return o, nil
}

func (o *options) flags() *flag.FlagSet {
	flags := flag.NewFlagSet("agent", flag.ContinueOnError)
	flags.SetOutput(new(strings.Builder))
	flags.StringVar(&o.baseURL, "base-url", "", "the `URL` of an API as Anthropic Messages; none is a model here")
	flags.StringVar(&o.model, "model", "made-up", "the `name` of the model")
	flags.String("prices", "", "what a million tokens `in,out` cost, in USD: "+madeUp+" for the model here")
	flags.String("cost", "0.50", "what the run may cost, with its sub-agents, in USD")
	flags.StringVar(&o.state, "state", filepath.Join(os.TempDir(), "watchdog-agent"), "the `folder` of the run's state")
	flags.StringVar(&o.http, "http", "", "serve a page of the run at this `address`, such as 127.0.0.1:8080")
	flags.BoolVar(&o.resume, "resume", false, "go on in a fresh window after a stop")
	flags.BoolVar(&o.yes, "yes", false, "do not ask before something is written")
	flags.DurationVar(&o.pace, "pace", 20*time.Millisecond, "the time between two words of the model on this machine")
	o.task = "Find out what is in this folder and write a note about it."
	return flags
}

func usage() string {
	return program.Help{
		What:   "Agent asks a model, runs the tools that it asks for, and ends when its money is spent.",
		Use:    "agent [flags] [task]",
		Flags:  new(options).flags(),
		Status: "0 done, 3 stopped by a guard, 2 wrong command line, 1 anything else.",
	}.String()
}

// again returns the command that goes on with the run.
func (o options) again(flags ...string) string {
	command := []string{"go run ./examples/agent -state", o.state}
	if o.yes {
		command = append(command, "-yes")
	}
	return strings.Join(append(command, flags...), " ")
}
