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
	"github.com/seed62658d38/watchdog/stall"
)

// A runRecord is the run in the store that is named. The command is a layer of it, whose events are there before the
// first signal; how the run itself ended follows when nothing of the command is alive. A nil record keeps nothing.
type runRecord struct {
	db  database
	run *watchdog.Watchdog
}

// openRecord opens the store, if one is named, before the command starts. It has the command's events kept there, or
// else nowhere.
func (c *runCmd) openRecord(ctx context.Context, common *Common, cfg *stall.Config) (*runRecord, error) {
	if common.Store == "" {
		cfg.Store = &watchdog.Memory{}
		return nil, nil
	}
	if cfg.RunID == "" {
		cfg.RunID = strings.ToLower(rand.Text()[:16])
	}
	db, err := common.open(ctx)
	if err != nil {
		return nil, err
	}
	named := watchdog.Run{ID: cfg.RunID, StartedAt: time.Now()}
	run, err := watchdog.New(context.WithoutCancel(ctx), named, watchdog.Config{
		Disabled: cfg.Disabled, Store: db, Budget: watchdog.Budget{WallClock: watchdog.NoLimit},
		RecordTimeout: cfg.RecordTimeout, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, errors.Join(againHint(cfg.RunID, err), db.Close())
	}
	cfg.Store = db
	return &runRecord{db, run}, nil
}

// againHint says what to do about a run of this name that is over.
func againHint(id string, err error) error {
	if errors.Is(err, watchdog.ErrComplete) {
		return fmt.Errorf("%w; use another --id, or write watchdog resume %s first", err, quoted(id))
	}
	return err
}

// close records how the run ended, and closes the store. It returns what could not be recorded.
func (r *runRecord) close(e *ending) error {
	if r == nil {
		return nil
	}
	var err error
	if e.result != nil {
		err = r.recordEnd(e)
	}
	if err := errors.Join(err, r.run.Close(), r.db.Close()); err != nil {
		return fmt.Errorf("record the end: %w", err)
	}
	return nil
}

// recordEnd records the one end of the run: a stop, an interrupt, or that it is complete.
func (r *runRecord) recordEnd(e *ending) error {
	var stop *watchdog.Stop
	switch {
	case errors.As(e.err, &stop):
		_, err := r.run.Cancel(watchdog.Cancellation{Reason: stop.Code, Elapsed: stop.Elapsed, Budget: stop.Budget})
		return err
	case e.interrupted():
		return r.run.Interrupt(signalName(e.signal))
	}
	r.run.Note(e.ended())
	return r.run.Complete()
}
