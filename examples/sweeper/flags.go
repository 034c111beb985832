package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/config"
	"github.com/seed62658d38/watchdog/examples/internal/program"
)

// The defaults of this program, short enough to watch.
const (
	shownInterval = 2 * time.Second
	shownDelay    = watchdog.None

	shownSessions = 1000 // of the temporary database
	shownStalled  = 25
)

// options are the parsed command line.
type options struct {
	dsn           string
	seed, stalled int
	once          bool
	http          string
	limits        *config.Config

	file   string
	dryRun bool
}

func (o *options) flags() *flag.FlagSet {
	flags := flag.NewFlagSet("sweeper", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.dsn, "dsn", "", "use the database sqlite:PATH or postgres://... (default: a temporary SQLite file)")
	flags.IntVar(&o.seed, "seed", 0, "first insert `N` active sessions into a database that has none "+
		"(default: 1000 without -dsn, else 0)")
	flags.IntVar(&o.stalled, "stalled", 0, "make `K` of them stalled (default: 25, or as many as there are)")
	flags.BoolVar(&o.once, "once", false, "run one pass and exit")
	flags.BoolVar(&o.dryRun, "dry-run", false,
		"only print what would be cancelled: write nothing into the database of -dsn, and make no tables there")
	flags.StringVar(&o.http, "http", "", "serve a page of the sessions at `ADDR`, such as 127.0.0.1:8080, "+
		"and the health of the sweeper at /healthz")
	flags.StringVar(&o.file, "config", "", "read the sweep block of `FILE`")
	return flags
}

// parse reads the command line, and the limits from the file and the environment.
func parse(args []string) (options, error) {
	var o options
	flags := o.flags()
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	stalledIsSet := o.invent(flags)
	switch {
	case flags.NArg() > 0:
		// The argument is not repeated: it may be a password.
		return o, errors.New("unexpected argument; use flags only, such as -dsn")
	case !validDSN(o.dsn):
		return o, errors.New("-dsn: use sqlite:PATH or postgres://USER@HOST/DATABASE")
	case stalledIsSet && o.dsn != "" && o.seed == 0:
		return o, errors.New("-stalled says how many sessions of -seed are stalled; set -seed, too, or leave it out")
	case o.seed < 0 || o.stalled < 0 || o.stalled > o.seed:
		return o, fmt.Errorf("-seed %d, -stalled %d: use numbers of at least 0, -stalled at most -seed", o.seed, o.stalled)
	case o.once && o.http != "":
		return o, errors.New("-http serves while the sweeper runs; leave out -once")
	}
	return o, o.load()
}

// load reads the limits.
func (o *options) load() error {
	limits, err := config.Load(o.file, nil)
	if err != nil {
		return err
	}
	o.limits = limits
	cfg := &limits.Sweep
	cfg.DryRun = cfg.DryRun || o.dryRun
	switch {
	case cfg.Resume.Max > 0:
		return errors.New("sweep.max_resumes is set, and this program resumes nothing: set it to 0")
	case cfg.DryRun && o.seed > 0 && o.dsn != "":
		return errors.New("a dry run writes nothing; leave out -seed, or leave out -dsn for a temporary database")
	}
	cfg.Interval = cmp.Or(cfg.Interval, shownInterval)
	cfg.StartupDelay = cmp.Or(cfg.StartupDelay, shownDelay)
	return nil
}

// invent fills in how many sessions are inserted. Only the temporary database gets some that nobody asked for.
func (o *options) invent(flags *flag.FlagSet) (stalledIsSet bool) {
	set := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { set[f.Name] = true })
	if !set["seed"] && o.dsn == "" {
		o.seed = shownSessions
	}
	if !set["stalled"] {
		o.stalled = min(shownStalled, max(o.seed, 0))
	}
	return set["stalled"]
}

// name names the database without what is secret.
func (o *options) name() string {
	path, isSQLite := sqlitePath(o.dsn)
	switch {
	case o.dsn == "":
		return "SQLite"
	case isSQLite:
		return path
	}
	return "PostgreSQL"
}

// usage returns the help text.
func usage() string {
	var o options
	return program.Help{
		What:   "Sweeper cancels the sessions in a database that have stalled.",
		Use:    "sweeper [FLAGS]",
		Flags:  o.flags(),
		Status: "0 done or interrupted, 1 the database or a pass failed, 2 wrong command line.",
	}.String()
}
