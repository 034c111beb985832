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
	"github.com/seed62658d38/watchdog/notify"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/stall"
)

// A runRecord is the run in the store that is named: its row among the sessions while it lives, and its events. The
// command is a layer of it, whose events are there before the first signal; how the run itself ended follows when
// nothing of the command is alive. A nil record keeps nothing.
type runRecord struct {
	db   database
	kept *runKeeper
	run  *watchdog.Watchdog
	told *notify.Sender // nil for nobody
}

// openRecord opens the store, if one is named, before the command starts. It has the command's events kept there, or
// else nowhere.
func (c *runCmd) openRecord(
	ctx context.Context, p Program, common *Common, cfg *stall.Config, keeper session.KeeperConfig,
) (*runRecord, error) {
	if common.Store == "" {
		cfg.Store = &watchdog.Memory{}
		return nil, nil
	}
	if cfg.RunID == "" {
		cfg.RunID = strings.ToLower(rand.Text()[:16])
	}
	db, err := common.open(ctx, c.webhook.URL != "")
	if err != nil {
		return nil, err
	}
	cfg.Store = db
	r := &runRecord{db: db}
	r.told, err = p.sender(db, c.webhook, common.JSON)
	if err == nil && c.ID != "" && !cfg.Disabled {
		err = p.refuseLive(ctx, common, db, c.ID)
	}
	if err == nil {
		err = r.attach(ctx, cfg, keeper)
	}
	if err != nil {
		return nil, errors.Join(againHint(cfg.RunID, err), r.shut())
	}
	return r, nil
}

// attach begins the run and its row.
func (r *runRecord) attach(ctx context.Context, cfg *stall.Config, keeper session.KeeperConfig) (err error) {
	began := time.Now().Truncate(time.Microsecond) // as the row has it
	keeper.Store = r.db
	if r.kept, err = startKeeper(keeper, cfg, began); err != nil {
		return err
	}
	r.run, err = watchdog.New(context.WithoutCancel(ctx), watchdog.Run{ID: cfg.RunID, StartedAt: began}, watchdog.Config{
		Disabled: cfg.Disabled, Store: r.db, Keeper: r.kept, Budget: watchdog.Budget{WallClock: watchdog.NoLimit},
		RecordTimeout: cfg.RecordTimeout, Logger: slog.New(slog.DiscardHandler),
	})
	return err
}

// againHint says what to do about a run of this name that is over.
func againHint(id string, err error) error {
	if errors.Is(err, watchdog.ErrComplete) {
		return fmt.Errorf("%w; use another --id, or write watchdog resume %s first", err, quoted(id))
	}
	return err
}

// guard returns the context and the config of the command: it ends with ctx, and with the run, whoever ends that. A
// command whose silence is a signal is inside of the run, so that its output is the run's sign of life. The output of
// any other is left alone, and its run is never silent: see [session.Lease].
func (r *runRecord) guard(ctx context.Context, cfg stall.Config) (context.Context, stall.Config, func()) {
	if r == nil {
		return ctx, cfg, func() {}
	}
	base, besides := ctx, r.run.Context()
	if endsSilence(&cfg) {
		base, besides = besides, base
		cfg.Store, cfg.RunID = nil, "" // they are those of the run
	}
	both, cancel := context.WithCancelCause(base)
	stop := context.AfterFunc(besides, func() { cancel(context.Cause(besides)) })
	return both, cfg, func() { stop(); cancel(nil) }
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
	if err = errors.Join(err, r.run.Close(), r.kept.end()); err != nil {
		err = fmt.Errorf("record the end: %w", err)
	}
	if told := tellBriefly(r.told); told != nil {
		err = errors.Join(err, told)
	}
	return errors.Join(err, r.db.Close())
}

// shut ends what keeps the row, and closes the store.
func (r *runRecord) shut() error { return errors.Join(r.kept.end(), r.db.Close()) }

// recordEnd records the one end of the run, unless another process ended it: a stop, an interrupt, or that it is
// complete.
func (r *runRecord) recordEnd(e *ending) error {
	var stop *watchdog.Stop
	switch {
	case e.elsewhere() != "":
		return nil
	case errors.As(e.err, &stop):
		_, err := r.run.Cancel(watchdog.Cancellation{Reason: stop.Code, Elapsed: stop.Elapsed, Budget: stop.Budget})
		return err
	case e.interrupted():
		return r.run.Interrupt(signalName(e.signal))
	}
	r.run.Note(e.ended())
	return r.run.Complete()
}
