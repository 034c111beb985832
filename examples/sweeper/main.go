// Sweeper finds stalled sessions in a database, whoever ran them, and cancels them.
//
//	go run ./examples/sweeper                             1,000 sessions in SQLite, 25 stalled, a pass every two seconds
//	go run ./examples/sweeper -seed 100000 -stalled 50 -once
//	go run ./examples/sweeper -dry-run -once              print what would be cancelled
//	go run ./examples/sweeper -dsn postgres://user@/db -http 127.0.0.1:8080
//	go run ./examples/sweeper -dsn sqlite:sessions.db -seed 1000 -once
//
// It sweeps as a host would until Ctrl-C, and prints after each pass what was cancelled and why. With -http it serves a
// page of the sessions and the passes at /, which asks for no password, and the sweeper's health at /healthz. Several
// of these programs can sweep one database.
//
// Without -dsn the database is a temporary one, and first gets invented sessions: -seed of them, of which -stalled have
// had no event for at least fifteen minutes. Into a database of -dsn they are inserted only if -seed is set, and never
// if it has sessions: that is an error, and nothing is changed. With -dry-run nothing is written there, and no table is
// made.
//
// # Configuration
//
// The limits are those of the sweep block in the file of -config, and of the environment: WATCHDOG_INTERVAL_MS,
// WATCHDOG_STALLED_THRESHOLD_MS, WATCHDOG_MAX_CANCELLATIONS and the others in docs/configuration.md. The rest have
// their defaults, except the interval and the startup delay, which are short enough to watch. Without -once it first
// prints how long it takes at worst until a session is cancelled. An alert is a line of the output.
//
// # Exit status
//
// It is 0 after -once and after an interrupt, 1 when the database or a pass failed, and 2 for a wrong command line. go
// run has an exit status of its own.
//
// # What it does not do
//
// No agent works on these sessions, so it stops and resumes none: [sweep.Config].StopHook and Resume do that in a host.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/seed62658d38/watchdog/examples/internal/program"
	"github.com/seed62658d38/watchdog/page"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// The exit statuses.
const (
	exitDone  = 0
	exitError = 1
	exitUsage = 2
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
		return printError(stderr, err, exitError)
	case err != nil:
		return printError(stderr, fmt.Errorf("%w\nsweeper -h lists the flags", err), exitUsage)
	}
	err = sweepAll(ctx, opts, stdout, stderr)
	if ctx.Err() != nil {
		_, _ = fmt.Fprintln(stderr, "sweeper: interrupted after the sessions in hand; what was cancelled stays so, and a "+
			"sweeper of the same -dsn goes on with the others")
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return exitDone // an interrupt is not a failure
	}
	return printError(stderr, err, exitError)
}

// printError prints an error, if there is one, and returns the exit status.
func printError(stderr io.Writer, err error, status int) int {
	if err == nil {
		return exitDone
	}
	_, _ = fmt.Fprintf(stderr, "sweeper: %v\n", err)
	return status
}

// sweepAll inserts the sessions and sweeps the database. A dry run may only read the database of -dsn.
func sweepAll(ctx context.Context, opts options, stdout, stderr io.Writer) (err error) {
	dsn := opts.dsn
	if dsn == "" {
		folder, err := os.MkdirTemp("", "sweeper")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(folder) }()
		dsn = "sqlite:" + filepath.Join(folder, "sessions.db")
	}
	db, err := open(ctx, dsn, opts.limits.Sweep.DryRun && opts.dsn != "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := insert(ctx, dsn, opts.name(), opts.seed, opts.stalled, stdout); err != nil {
		return err
	}
	return sweepIn(ctx, db, opts, stdout, stderr)
}

// sweepIn sweeps a database once, or until an interrupt.
func sweepIn(ctx context.Context, db store, opts options, stdout, stderr io.Writer) error {
	cfg := opts.limits.Sweep
	cfg.Logger = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	table := &table{out: stdout}
	passes := &page.PassLog{}
	cfg.OnPass = func(p sweep.Pass) { table.pass(p); passes.Add(p) }
	if cfg.Alert.Within > 0 {
		cfg.Alert.Func = table.alert
	}
	sweeper, err := sweep.New(db, db, cfg)
	if err != nil {
		return err
	}
	if opts.once {
		_, err := sweeper.Sweep(ctx)
		if errors.Is(err, sweep.ErrDisabled) {
			return fmt.Errorf("%w: see sweep.enabled and runtime_controls.disabled in the file of -config, and the variables "+
				"WATCHDOG_ENABLED and WATCHDOG_DISABLED", err)
		}
		return errors.Join(err, table.history(ctx, db))
	}
	if opts.http != "" {
		pages := page.Config{
			Sessions: db, Events: db, Sweeper: sweeper, PassLog: passes, Hosts: []string{"localhost"},
			Logger: cfg.Logger,
		}
		stop, err := serve(ctx, opts.http, sweeper, pages, stdout)
		if err != nil {
			return err
		}
		defer stop()
	}
	_, _ = fmt.Fprintf(stdout, "%s; press Ctrl-C to end\n", doing(opts))
	err = sweeper.Run(ctx)
	return errors.Join(err, table.history(context.WithoutCancel(ctx), db))
}

// doing says what the sweeper does until it is ended, and how soon it cancels.
func doing(opts options) string {
	if opts.limits.Sweep.Disabled {
		return "the configuration switches the sweeper off: it does nothing"
	}
	return fmt.Sprintf("%s\nsweeping %s every %v", opts.limits.WorstTime(), opts.name(), opts.limits.Sweep.Interval)
}

// serve serves the page and the sweeper's health at the address.
func serve(
	ctx context.Context, address string, sweeper *sweep.Sweeper, cfg page.Config, stdout io.Writer,
) (stop func(), err error) {
	pages, err := page.New(cfg)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/{$}", pages)
	mux.Handle("/healthz", sweeper.Handler())
	url, stopServing, err := program.Serve(ctx, address, mux)
	if err != nil {
		return nil, errors.Join(err, pages.Close())
	}
	_, _ = fmt.Fprintf(stdout, "the page is at %s\nhealth is at %[1]shealthz\n", url)
	return func() {
		_ = pages.Close() // never fails
		stopServing()
	}, nil
}

// A table prints the outcome of passes.
type table struct {
	mu     sync.Mutex
	out    io.Writer
	passes int
	quiet  bool // the last pass found nothing
}

// pass prints one pass. Of several passes in a row that found nothing it prints only the first, in one line.
func (t *table) pass(p sweep.Pass) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.passes++
	wasQuiet := t.quiet
	t.quiet = p.Found == 0 && p.Errors == 0
	if t.quiet && wasQuiet {
		return
	}
	_, _ = fmt.Fprintf(t.out, "\npass %d: %d checked, %d stalled, %d cancelled, %d spared, %d failed (%v)\n",
		t.passes, p.Checked, p.Found, p.Cancelled, p.Spared, p.Failed, p.Duration.Round(10*time.Microsecond))
	if len(p.Cases) == 0 {
		return
	}
	w := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "SESSION\tHOST\tSILENT FOR\tALLOWED\tWHAT\tWHY\n")
	for _, c := range p.Cases {
		fmt.Fprintf(w, "%s\t%s\t%v\t%v\t%s\t%s\n", c.Session.RunID, c.Session.Host,
			c.Silence.Round(time.Second), c.Threshold, c.Handling, c.Reason())
	}
	w.Flush()
}

// alert prints that there are many cancels, as the configuration counts them.
func (t *table) alert(_ context.Context, cancels int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = fmt.Fprintf(t.out, "\nalert: %d cancels\n", cancels)
}

// history prints how many sessions were cancelled in the last day, by reason and by host, with one query each.
func (t *table) history(ctx context.Context, store session.Store) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for _, by := range []session.Dimension{session.ByReason, session.ByHost} {
		counts, err := store.History(ctx,
			session.HistoryQuery{From: now.Add(-24 * time.Hour), To: now.Add(time.Minute), By: by})
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(t.out, "\ncancels of the last day by %s:", by)
		for _, c := range counts {
			_, _ = fmt.Fprintf(t.out, " %s %d", c.Key, c.Count)
		}
	}
	_, _ = fmt.Fprintln(t.out)
	return nil
}
