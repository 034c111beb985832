package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/config"
	"github.com/seed62658d38/watchdog/sweep"
)

// The interval and the startup delay where neither the file nor the environment says.
const (
	shownInterval = 2 * time.Second
	shownDelay    = watchdog.None
)

// options are what the command line asks for.
type options struct {
	dsn           string
	seed, stalled int
	once          bool
	http          string
	config        sweep.Config

	file   string
	dryRun bool
}

func (o *options) flags() *flag.FlagSet {
	flags := flag.NewFlagSet("sweeper", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.dsn, "dsn", "", "the database: sqlite:PATH or postgres://... (default: SQLite in a folder that is removed at the end)")
	flags.IntVar(&o.seed, "seed", 1000, "add `N` active sessions first, or 0 for none")
	flags.IntVar(&o.stalled, "stalled", 25, "have `K` of them stalled")
	flags.BoolVar(&o.once, "once", false, "have one pass and end")
	flags.BoolVar(&o.dryRun, "dry-run", false, "only say what would be cancelled")
	flags.StringVar(&o.http, "http", "", "serve the health of the sweeper at `ADDR`, such as 127.0.0.1:8080")
	flags.StringVar(&o.file, "config", "", "read the sweep block of `FILE`")
	return flags
}

// parse reads the command line, and the file and the environment that it tells of.
func parse(args []string) (options, error) {
	var o options
	flags := o.flags()
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, errors.New("there is an argument that is no flag; everything is said with flags, such as -dsn") // not which: it may be a password
	case !understood(o.dsn):
		return o, errors.New("-dsn is neither sqlite:PATH nor postgres://USER@HOST/DATABASE")
	case o.seed < 0 || o.stalled < 0 || o.stalled > o.seed:
		return o, fmt.Errorf("-seed %d, -stalled %d: use numbers from 0, the second not above the first", o.seed, o.stalled)
	case o.once && o.http != "":
		return o, errors.New("-http serves while the sweeper runs; leave out -once")
	}
	limits, err := config.Load(o.file, os.LookupEnv)
	if err != nil {
		return o, err
	}
	o.config = limits.Sweep
	o.config.DryRun = o.dryRun
	if o.config.Interval == 0 {
		o.config.Interval = shownInterval
	}
	if o.config.StartupDelay == 0 {
		o.config.StartupDelay = shownDelay
	}
	return o, nil
}

// usage is the help text.
func usage() string {
	var o options
	var text strings.Builder
	text.WriteString("Sweeper cancels the sessions in a database that have stalled.\n\n")
	flags := o.flags()
	flags.SetOutput(&text)
	flags.PrintDefaults()
	text.WriteString("\nExit status: 0 done or interrupted, 1 the database or a pass failed, 2 wrong command line.\n")
	return text.String()
}
