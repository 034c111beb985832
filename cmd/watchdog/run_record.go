package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/stores"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/term"
	"github.com/seed62658d38/watchdog/internal/story"
	"github.com/seed62658d38/watchdog/stall"
)

// A runRecord is the run in the store that is named: its row among the sessions while it lives, and its events. The
// command is a layer of it, whose events are there before the first signal; how the run itself ended follows when
// nothing of the command is alive. A nil record keeps nothing: there is no store.
type runRecord struct {
	db   stores.Database
	kept *runKeeper
	run  *watchdog.Watchdog
	// before is the run that failed or was stopped, with which this one goes on; nil for none.
	before *story.Story

	note    func(string) // says one line, unless all that is said is JSON
	waiting bool         // it was said that the end waits
}

// openRecord opens the store, if one is named, before the command starts. It has the command's events kept there, or
// else nowhere.
func (c *runCmd) openRecord(
	ctx context.Context, p Program, common *Common, g *guards,
) (*runRecord, error) {
	cfg := &g.command
	if common.Store == "" {
		cfg.Store = &watchdog.Memory{}
		return nil, nil
	}
	if cfg.RunID == "" {
		cfg.RunID = strings.ToLower(rand.Text()[:16])
	}
	db, err := stores.Open(ctx, common.Store, stores.Writing, p.logger(common.JSON))
	if err != nil {
		return nil, err
	}
	cfg.Store = db
	r := &runRecord{db: db, note: func(text string) { p.note(common, "watchdog: "+text) }}
	if c.ID != "" && !cfg.Disabled {
		if err = p.refuseLive(ctx, common, db, c.ID); err == nil {
			err = r.readEarlier(ctx, common, c.ID)
		}
	}
	if err == nil {
		err = r.attach(ctx, g)
	}
	if err != nil {
		return nil, errors.Join(err, r.shut())
	}
	if r.before != nil && !common.JSON {
		p.sayResumed(r.before)
	}
	return r, nil
}

func (r *runRecord) attach(ctx context.Context, g *guards) (err error) {
	cfg, keeper := &g.command, g.keeper
	began := time.Now().Truncate(time.Microsecond) // as the row has it
	keeper.Store = r.db
	if r.kept, err = startKeeper(keeper, cfg, began); err != nil {
		return err
	}
	run, begin := watchdog.Run{ID: cfg.RunID, StartedAt: began}, watchdog.New
	if r.before != nil {
		run.StartedAt, begin = r.before.StartedAt, watchdog.Resume
	}
	r.run, err = begin(context.WithoutCancel(ctx), run, watchdog.Config{
		Disabled: cfg.Disabled, Store: r.db, Keeper: r.kept,
		Budget:        watchdog.Budget{WallClock: watchdog.NoLimit}, // a command has its times by itself
		RecordTimeout: cfg.RecordTimeout, Logger: slog.New(slog.DiscardHandler),
	})
	return err
}

// guard returns the context and the config of the command: it ends with ctx, and with the run, whoever ends that. A
// command whose silence is a signal is inside of the run, so that its output is the run's sign of life. The output of
// any other is left alone, and its run is never silent: see [session.Lease].
func (r *runRecord) guard(ctx context.Context, cfg stall.Config) (context.Context, stall.Config, func()) {
	if r == nil {
		return ctx, cfg, func() {}
	}
	cfg.OnSignal = func(e stall.Escalation) { r.kept.signalled(r.run.ID(), e) }
	base, besides := ctx, r.run.Context()
	if endsSilence(&cfg) {
		base, besides = besides, base
		cfg.Store, cfg.RunID = nil, "" // they are those of the run
	}
	both, cancel := context.WithCancelCause(base)
	stop := context.AfterFunc(besides, func() { cancel(context.Cause(besides)) })
	if besides.Err() != nil { // that func has a goroutine of its own, and the command starts meanwhile
		cancel(context.Cause(besides))
	}
	return both, cfg, func() { stop(); cancel(nil) }
}

// shut ends what keeps the row, and closes the store.
func (r *runRecord) shut() error {
	return errors.Join(r.kept.end(), r.db.Close())
}

// readEarlier reads what became of an earlier run of this name. With one that failed or was stopped a run goes on in a
// fresh window, and one that has done its work is an error that says what to do.
func (r *runRecord) readEarlier(ctx context.Context, common *Common, id string) error {
	found, err := stores.Record(ctx, r.db, id)
	if err != nil {
		return err
	}
	switch told := story.Of(found, time.Now()); told.State {
	case story.Complete:
		return fmt.Errorf("run %q has done its work, at %s: use another --id, or write %s first", id,
			told.End.At.UTC().Format(time.RFC3339), common.line("resume", id))
	case story.Failed, story.Stopped:
		r.before = &told
	}
	return nil
}

// sayResumed says in one line that the run goes on with one that failed or was stopped.
func (p Program) sayResumed(before *story.Story) {
	how := "failed"
	if before.State == story.Stopped {
		how = "was stopped"
	}
	how += " at " + before.End.At.UTC().Format(time.RFC3339)
	if text := before.End.Why(); text != "" {
		how += " (" + text + ")"
	}
	p.say(term.Plain(fmt.Sprintf("run %s %s: it is resumed, in a fresh window", before.RunID, how)))
}
