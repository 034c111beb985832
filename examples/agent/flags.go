package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/examples/internal/help"
	"github.com/seed62658d38/watchdog/watchdoghttp"
)

// madeUp are the prices of the model that comes with the program.
const madeUp = `{"currency":"USD","date":"2026-08-01","models":{"*":{"input":3000000,"output":15000000}}}`

type options struct {
	baseURL, model, key string
	prices              *watchdoghttp.Prices
	cost                watchdog.Money
	state, http         string
	resume, yes         bool
	task                string
	pace                time.Duration
}

func parse(args []string) (options, error) {
	o := options{}
	flags := o.flags()
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		o.task = strings.Join(flags.Args(), " ")
	}
	text := []byte(madeUp)
	if file := flags.Lookup("prices").Value.String(); file != "" {
		var err error
		if text, err = os.ReadFile(file); err != nil {
			return o, fmt.Errorf("-prices: %w", err)
		}
	} else if o.baseURL != "" {
		return o, fmt.Errorf("-base-url %s needs -prices, a file with what its models cost", o.baseURL)
	}
	prices, err := watchdoghttp.ReadPrices(text, "")
	if err != nil {
		return o, err
	}
	units, err := strconv.ParseFloat(flags.Lookup("cost").Value.String(), 64)
	if err != nil || !(units > 0 && units < 1e6) {
		return o, fmt.Errorf("-cost %q is no amount of money; write one such as 0.50", flags.Lookup("cost").Value)
	}
	o.prices, o.cost = prices, watchdog.Money{Micros: int64(units * 1e6), Currency: prices.Currency()}
	o.key = os.Getenv("ANTHROPIC_API_KEY")
	return o, nil
}

func (o *options) flags() *flag.FlagSet {
	flags := flag.NewFlagSet("agent", flag.ContinueOnError)
	flags.SetOutput(new(strings.Builder))
	flags.StringVar(&o.baseURL, "base-url", "", "the `URL` of an API as Anthropic Messages; none is a model here")
	flags.StringVar(&o.model, "model", "made-up", "the `name` of the model")
	flags.String("prices", "", "a `file` with what models cost, see watchdoghttp.ReadPrices")
	flags.String("cost", "0.50", "what the run may cost, with its sub-agents, in the currency of the prices")
	flags.StringVar(&o.state, "state", filepath.Join(os.TempDir(), "watchdog-agent"), "the `folder` of the run's state")
	flags.StringVar(&o.http, "http", "", "serve a page of the run at this `address`, such as 127.0.0.1:8080")
	flags.BoolVar(&o.resume, "resume", false, "go on in a fresh window after a stop")
	flags.BoolVar(&o.yes, "yes", false, "do not ask before something is written")
	flags.DurationVar(&o.pace, "pace", 20*time.Millisecond, "the time between two words of the model on this machine")
	o.task = "Find out what is in this folder and write a note about it."
	return flags
}

func usage() string {
	return help.Text{
		What:   "Agent asks a model, runs the tools that it asks for, and ends when its money is spent.",
		Uses:   []help.Use{{Line: "agent [flags] [task]", Flags: new(options).flags()}},
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
