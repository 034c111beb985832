package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/stores"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/term"
	"github.com/seed62658d38/watchdog/internal/story"
)

//nolint:lll // a tag cannot be broken
type tailCmd struct {
	Of    string        `arg:"" optional:"" name:"run" help:"The ID of the run to follow. Without one all runs are followed."`
	Lines *int          `short:"n" placeholder:"N" help:"Print the run's last N events first, 10 unless told."`
	Since time.Duration `placeholder:"DURATION" help:"Print the run's events of that time first, such as 1h."`
}

// Help is the long help.
func (tailCmd) Help() string {
	return `It prints each event when it is stored, whoever stores it, on a line of its own.
It writes nothing. End it with Ctrl-C; the exit status is then 130, as that of
tail -f.

Examples:
  watchdog tail --store sqlite:state/watchdog.db
  watchdog tail -n 100 s-1
  watchdog tail --since 1h --json s-1`
}

const defaultLines = 10

// Run follows the events of a run, or of all, until a signal.
func (c tailCmd) Run(ctx context.Context, p Program, common *Common) (err error) {
	if err := c.check(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer cancelOnSignal(cancel)()
	db, err := stores.Open(ctx, common.Store, stores.Reading, p.logger(common.JSON))
	if err != nil {
		return ended(ctx, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	f := follower{program: p, tail: c, json: common.JSON, cancel: cancel}
	return ended(ctx, db.Follow(ctx, c.Of, func() { f.before(ctx, db) }, f.told))
}

// check refuses what cannot be told: a store has an order of the events of one run, not of all.
func (c tailCmd) check() error {
	switch {
	case c.Of == "" && (c.Lines != nil || c.Since != 0):
		return errors.New("-n and --since are about the events of one run; name the run, or leave them out")
	case c.Lines != nil && *c.Lines < 0:
		return fmt.Errorf("-n %d: the number of events must be 0 or more", *c.Lines)
	}
	return nil
}

// cancelOnSignal ends a context by the signals that end programs, with the exit status of a shell as the cause.
func cancelOnSignal(cancel context.CancelCauseFunc) (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		select {
		case s := <-signals:
			cancel(exitStatus(exitSignalled + int(s.(syscall.Signal))))
		case <-done:
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
	}
}

// ended is why a context ended, or else the error.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// A follower prints events, each once.
type follower struct {
	program Program
	tail    tailCmd
	json    bool
	cancel  context.CancelCauseFunc
	known   map[string]bool // what was there when following began
}

// before prints events of before, when nothing can be missed any more.
func (f *follower) before(ctx context.Context, db stores.Database) {
	if f.tail.Of == "" {
		return
	}
	events, err := db.Read(ctx, watchdog.AggregateType, f.tail.Of)
	var now time.Time
	if err == nil && f.tail.Since > 0 {
		now, err = stores.Now(ctx, db)
	}
	if err != nil {
		f.cancel(err)
		return
	}
	f.print(f.wanted(events, now)...)
	f.known = map[string]bool{}
	for _, e := range events {
		f.known[e.ID] = true
	}
}

// wanted are the events of before that are to be printed.
func (f *follower) wanted(events []watchdog.Event, now time.Time) []watchdog.Event {
	from := now.Add(-f.tail.Since)
	events = slices.DeleteFunc(slices.Clone(events), func(e watchdog.Event) bool {
		return f.hides(e) || f.tail.Since > 0 && e.Timestamp.Before(from)
	})
	lines := defaultLines
	switch {
	case f.tail.Lines != nil:
		lines = *f.tail.Lines
	case f.tail.Since > 0:
		lines = len(events)
	}
	return events[max(len(events)-lines, 0):]
}

func (f *follower) told(e watchdog.Event) {
	if !f.known[e.ID] {
		f.print(e)
	}
	delete(f.known, e.ID) // it is told once
}

func (f *follower) print(events ...watchdog.Event) {
	for _, e := range events {
		if err := f.printOne(e); err != nil {
			f.cancel(err)
			return
		}
	}
}

// hides reports whether the event is not for people: it tells of nothing that happened.
func (f *follower) hides(e watchdog.Event) bool { return !f.json && e.Type == watchdog.EventStart }

func (f *follower) printOne(e watchdog.Event) error {
	if f.hides(e) {
		return nil
	}
	if f.json {
		return json.NewEncoder(f.program.Stdout).Encode(e)
	}
	line := e.Timestamp.UTC().Format("2006-01-02T15:04:05.000Z ")
	if f.tail.Of == "" {
		line += e.AggregateID + " "
	}
	_, err := fmt.Fprintln(f.program.Stdout, term.Plain(line+story.Sentence(e)))
	return err
}
